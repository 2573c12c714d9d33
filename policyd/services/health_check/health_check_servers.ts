import type { Machine } from "../../machine.ts";
import { DrawbridgeError, problemOf } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Budget } from "../../lib/budget.ts";
import { ControlLoop, type NextPass } from "../../lib/control_loop.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import { type HealthAnswer, healthAnswer, type HealthCheck } from "./health_check.ts";
import { type HttpListener, type Listening, type ListeningAddress, placeId } from "../../http/http_listener.ts";
import { Listeners } from "../../http/listeners.ts";
import { placesOf } from "./listening_addresses.ts";

export interface HealthCheckParts extends Pick<Machine, "clock" | "logger"> {
  readonly listener: HttpListener;
  /** The node's addresses at which checks are answered. @throws DrawbridgeError when the kernel does not report them */
  readonly addresses: () => readonly Address[];
  /** Milliseconds between two reads of the addresses; undefined if they never change. */
  readonly addressPeriod: number | undefined;
  readonly isProxyHealthy: () => boolean;
  /** The room for servers. */
  readonly budget: Budget;
}

const RETRIES = [200, 30_000] as const;
const NO_ROOM = "the namespace has its share of the node's sockets for health checks, and no other is free";
const UNKNOWN = "the node's addresses cannot be read, so they are taken to be as before; it is tried again";

/**
 * The servers at which load balancers check Services of this node (LB-14).
 *
 * They open when the rules are in force for the first time and close with their Service. An additional endpoint counts
 * once the rules have it, a lost one stops counting at once: no client is sent here before the node can serve it. A
 * port that is taken is reported, and tried again until it is free.
 */
export class HealthCheckServers {
  readonly #parts: HealthCheckParts;
  /**
   * The checks by port. Where several Services claim one, that whose `namespace/name` sorts first has it and is the first
   * (DP-04): only the API server ensures unique numbers, files do not.
   */
  readonly #checks = new Map<number, readonly HealthCheck[]>();
  readonly #portOf = new Map<string, number>();
  readonly #listeners: Listeners;
  /** By port; none without a place. */
  readonly #places = new Map<number, readonly ListeningAddress[]>();
  /** The checks by port at the time when the rules were last in force. */
  readonly #inForce = new Map<number, HealthCheck>();
  /** Ports whose checks have changed since then. */
  readonly #touched = new Set<number>();
  /** The addresses at which checks are answered, as last read. */
  #known: readonly Address[] = [];
  /** Why the last read of the addresses failed. */
  #refusal: string | undefined;
  #isStarted = false;
  /** Reads the node's addresses. */
  readonly #loop: ControlLoop;

  constructor(parts: HealthCheckParts) {
    this.#parts = parts;
    const { clock, logger } = parts;
    this.#loop = new ControlLoop({ clock, pass: () => this.#look() });
    this.#listeners = new Listeners({
      clock,
      open: (place) => this.#open(place),
      onRefused: (place, error, _isFirst, retryMilliseconds) => {
        const service = this.#holder(place.port)?.key;
        const fields = { place: placeId(place), service, error, retryMilliseconds };
        logger.warn("a health check server cannot listen; it is tried again", fields, namespaceOf(service ?? ""));
      },
      retries: RETRIES,
    });
  }

  /** Replaces a Service's check, undefined for none. */
  replace(key: string, check: HealthCheck | undefined): void {
    const ports = [...new Set([this.#portOf.get(key), check?.port])].filter((port) => port !== undefined);
    for (const port of ports) {
      const others = (this.#checks.get(port) ?? []).filter((other) => other.key !== key);
      const all = check?.port === port ? [...others, check].sort((a, b) => (a.key < b.key ? -1 : 1)) : others;
      if (all.length === 0) this.#checks.delete(port);
      else this.#checks.set(port, all);
      this.#touched.add(port);
    }
    if (check === undefined) this.#portOf.delete(key);
    else this.#portOf.set(key, check.port);
    this.#arrange(ports);
  }

  /** Reports that the kernel has all rules that follow from the checks set so far. */
  rulesInForce(): void {
    for (const port of this.#touched) {
      const check = this.#holder(port);
      if (check === undefined) this.#inForce.delete(port);
      else this.#inForce.set(port, check);
    }
    this.#touched.clear();
    if (this.#isStarted) return;
    this.#isStarted = true;
    this.#loop.run();
  }

  /** Reports that the node's addresses may have changed. */
  addressesChanged(): void {
    this.#arrange([...this.#checks.keys()]);
  }

  problems(): readonly string[] {
    const servers = this.#listeners
      .problems()
      .map(
        ([{ port }, problem]) =>
          `Service ${this.#holder(port)?.key}: healthCheckNodePort ${port}: ${problem}; it is tried again`,
      );
    // Without a check the addresses are not needed.
    const isUnknown = this.#refusal !== undefined && this.#checks.size > 0;
    const unknown = isUnknown ? [`health checks: ${UNKNOWN}: ${this.#refusal}`] : [];
    const without = [...this.#checks].flatMap(([port, [holder, ...others]]) =>
      others.map(
        ({ key }) =>
          `Service ${key}: healthCheckNodePort ${port} is Service ${holder?.key}'s; expected a number of its own`,
      ),
    );
    return [...without, ...unknown, ...servers];
  }

  stop(): void {
    void this.#loop.stop();
    this.#listeners.stop();
  }

  /**
   * Returns the addresses; the last ones while the kernel does not report them, as for lack of memory: nothing closes.
   */
  #addresses(): readonly Address[] {
    const { addresses, logger } = this.#parts;
    const error = problemOf(() => (this.#known = addresses()));
    if (error !== undefined && this.#refusal === undefined) logger.warn(UNKNOWN, { error });
    this.#refusal = error;
    return this.#known;
  }

  /** Returns the check that has a port. */
  #holder(port: number): HealthCheck | undefined {
    return this.#checks.get(port)?.[0];
  }

  #look(): NextPass {
    this.addressesChanged();
    return this.#parts.addressPeriod;
  }

  /** Makes servers listen for these port numbers, and for no others of them. */
  #arrange(ports: readonly number[]): void {
    if (!this.#isStarted || ports.length === 0) return;
    const isUsed = ports.some((port) => this.#holder(port) !== undefined);
    const addresses = isUsed ? this.#addresses() : [];
    for (const port of ports) {
      const places = placesOf(this.#holder(port), addresses);
      this.#listeners.replace(this.#places.get(port) ?? [], places);
      if (places.length === 0) this.#places.delete(port);
      else this.#places.set(port, places);
    }
  }

  /** @throws DrawbridgeError (by the promise) if there is no room for the server, or it cannot listen */
  async #open(place: ListeningAddress): Promise<Listening> {
    const { listener, budget } = this.#parts;
    const namespace = namespaceOf(this.#holder(place.port)?.key ?? "");
    if (!budget.take(namespace, 1)) throw new DrawbridgeError("ERR_UNAVAILABLE", NO_ROOM);
    const leave = (): void => budget.change(namespace, -1);
    try {
      const listening = await listener.listen(place, () => this.#answer(place));
      return {
        close: () => {
          leave();
          listening.close();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  #answer({ port, family }: ListeningAddress): HealthAnswer {
    const check = this.#holder(port);
    // A server is closed in the turn of the event loop in which its check is removed.
    if (check === undefined) return healthAnswer({ namespace: "", name: "" }, 0, false);
    const inForce = this.#inForce.get(port);
    const countOf = (of: HealthCheck | undefined): number => of?.localEndpoints.get(family) ?? 0;
    const count = inForce?.key === check.key ? Math.min(countOf(check), countOf(inForce)) : 0;
    return healthAnswer(check, count, this.#parts.isProxyHealthy());
  }
}
