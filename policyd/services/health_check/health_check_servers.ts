import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Budget } from "../../lib/budget.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import type { Logger } from "../../log/logger.ts";
import { type HealthAnswer, healthAnswer, type HealthCheck } from "./health_check.ts";
import type { HttpListener, Listening } from "./http_listener.ts";
import { type ListeningAddress, placeDifference, placeId, placesOf } from "./listening_addresses.ts";

export interface HealthCheckParts {
  readonly listener: HttpListener;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The node's addresses at which checks are answered. @throws DrawbridgeError when the kernel does not report them */
  readonly addresses: () => readonly Address[];
  /** Milliseconds between two reads of the addresses; undefined if they never change. */
  readonly addressPeriod: number | undefined;
  readonly isProxyHealthy: () => boolean;
  /** The room for servers. */
  readonly budget: Budget;
}

const FIRST_RETRY = 200;
const LAST_RETRY = 30_000;
const NO_ROOM = "the namespace has its share of the node's sockets for health checks, and no other is free";
const UNKNOWN = "the node's addresses cannot be read, so they are taken to be as before; it is tried again";

interface Server {
  readonly place: ListeningAddress;
  /** The namespace that has room for it; undefined while there is none. */
  namespace: string | undefined;
  listening: Listening | undefined;
  problem: string | undefined;
  cancelRetry: Cancel | undefined;
}

/**
 * The servers at which load balancers check Services of this node (LB-14).
 *
 * They open when the rules are in force for the first time and close with their Service. An additional endpoint counts
 * once the rules have it, a lost one stops counting at once: no client is sent here before the node can serve it. A
 * port that is taken is reported, and tried again until it is free.
 */
export class HealthCheckServers {
  readonly #parts: HealthCheckParts;
  readonly #holders = new CheckHolders();
  /** By port, then by {@link placeId}. */
  readonly #servers = new Map<number, Map<string, Server>>();
  /** The checks by port at the time when the rules were last in force. */
  readonly #inForce = new Map<number, HealthCheck>();
  /** Ports whose checks have changed since then. */
  readonly #touched = new Set<number>();
  /** The addresses at which checks are answered, as last read. */
  #known: readonly Address[] = [];
  /** Why the last read of the addresses failed. */
  #refusal: string | undefined;
  #isStarted = false;
  #isStopped = false;
  /** Reads the node's addresses. */
  readonly #loop: ControlLoop;

  constructor(parts: HealthCheckParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#look() });
  }

  /** Replaces a Service's check, undefined for none. */
  replace(key: string, check: HealthCheck | undefined): void {
    for (const port of this.#holders.replace(key, check)) {
      this.#touched.add(port);
      if (this.#isStarted) this.#arrange(port, this.#addresses());
    }
  }

  /** Reports that the kernel has all rules that follow from the checks set so far. */
  rulesInForce(): void {
    for (const port of this.#touched) {
      const check = this.#holders.holder(port);
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
    if (!this.#isStarted || this.#holders.ports().length === 0) return;
    const addresses = this.#addresses();
    for (const port of this.#holders.ports()) this.#arrange(port, addresses);
  }

  problems(): readonly string[] {
    const servers = [...this.#servers].flatMap(([port, ofPort]) =>
      [...ofPort.values()].flatMap(({ problem }) =>
        problem === undefined
          ? []
          : [`Service ${this.#holders.holder(port)?.key}: healthCheckNodePort ${port}: ${problem}; it is tried again`],
      ),
    );
    // Without a check the addresses are not needed.
    const isUnknown = this.#refusal !== undefined && this.#holders.ports().length > 0;
    const unknown = isUnknown ? [`health checks: ${UNKNOWN}: ${this.#refusal}`] : [];
    return [...this.#holders.problems(), ...unknown, ...servers];
  }

  stop(): void {
    this.#isStopped = true;
    void this.#loop.stop();
    for (const servers of this.#servers.values()) for (const server of servers.values()) this.#close(server);
    this.#servers.clear();
  }

  /**
   * Returns the addresses; the last ones while the kernel does not report them, as for lack of memory: nothing closes.
   */
  #addresses(): readonly Address[] {
    const { addresses, logger } = this.#parts;
    try {
      this.#known = addresses();
      this.#refusal = undefined;
    } catch (error) {
      // Any other error is a bug, and ends the daemon.
      if (!(error instanceof DrawbridgeError)) throw error;
      if (this.#refusal === undefined) logger.warn(UNKNOWN, { error: error.message });
      this.#refusal = error.message;
    }
    return this.#known;
  }

  #look(): number | undefined {
    this.addressesChanged();
    return this.#parts.addressPeriod;
  }

  #arrange(port: number, addresses: readonly Address[]): void {
    if (this.#isStopped) return;
    const servers = this.#servers.get(port) ?? new Map<string, Server>();
    const { closed, opened } = placeDifference(servers.keys(), placesOf(this.#holders.holder(port), addresses));
    for (const id of closed) {
      this.#close(servers.get(id));
      servers.delete(id);
    }
    this.#servers.set(port, servers);
    for (const place of opened) {
      const server: Server = {
        place,
        namespace: undefined,
        listening: undefined,
        problem: undefined,
        cancelRetry: undefined,
      };
      servers.set(placeId(place), server);
      void this.#open(server, FIRST_RETRY);
    }
    if (servers.size === 0) this.#servers.delete(port);
  }

  async #open(server: Server, retry: number): Promise<void> {
    const { listener, clock, logger } = this.#parts;
    const { place } = server;
    const isWanted = (): boolean => this.#servers.get(place.port)?.get(placeId(place)) === server;
    server.cancelRetry = undefined;
    try {
      this.#charge(server);
      const listening = await listener.listen(place, () => this.#answer(place));
      if (!isWanted()) return listening.close();
      server.listening = listening;
      server.problem = undefined;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!isWanted()) return;
      server.problem = error.message;
      const service = this.#holders.holder(place.port)?.key;
      const fields = { place: placeId(place), service, error: error.message, retryMilliseconds: retry };
      logger.warn("a health check server cannot listen; it is tried again", fields, namespaceOf(service ?? ""));
      server.cancelRetry = clock.after(retry, () => void this.#open(server, Math.min(2 * retry, LAST_RETRY)));
    }
  }

  #answer({ port, family }: ListeningAddress): HealthAnswer {
    const check = this.#holders.holder(port);
    // A server is closed in the turn of the event loop in which its check is removed.
    if (check === undefined) return healthAnswer({ namespace: "", name: "" }, 0, false);
    const inForce = this.#inForce.get(port);
    const countOf = (of: HealthCheck | undefined): number => of?.localEndpoints.get(family) ?? 0;
    const count = inForce?.key === check.key ? Math.min(countOf(check), countOf(inForce)) : 0;
    return healthAnswer(check, count, this.#parts.isProxyHealthy());
  }

  /** @throws DrawbridgeError if there is no room for the server */
  #charge(server: Server): void {
    if (server.namespace !== undefined) return;
    const namespace = namespaceOf(this.#holders.holder(server.place.port)?.key ?? "");
    if (!this.#parts.budget.take(namespace, 1)) throw new DrawbridgeError("ERR_UNAVAILABLE", NO_ROOM);
    server.namespace = namespace;
  }

  #close(server: Server | undefined): void {
    server?.cancelRetry?.();
    server?.listening?.close();
    if (server?.namespace !== undefined) this.#parts.budget.change(server.namespace, -1);
  }
}

/**
 * Decides which Service gets a health check's port number that several claim: the one whose `namespace/name` sorts
 * first, whatever the order in which they arrived (DP-04). Only the API server ensures unique numbers, files do not.
 *
 * The cost of a change depends only on the claims to the numbers it affects.
 */
export class CheckHolders {
  readonly #numbers = new Map<string, number>();
  readonly #claims = new Map<number, ReadonlyMap<string, HealthCheck>>();

  /** Replaces a Service's check, undefined for none. @returns the affected port numbers */
  replace(key: string, check: HealthCheck | undefined): ReadonlySet<number> {
    const touched = new Set<number>();
    const before = this.#numbers.get(key);
    if (before !== undefined) {
      const others = [...(this.#claims.get(before) ?? [])].filter(([other]) => other !== key);
      if (others.length === 0) this.#claims.delete(before);
      else this.#claims.set(before, new Map(others));
      this.#numbers.delete(key);
      touched.add(before);
    }
    if (check !== undefined) {
      const others = this.#claims.get(check.port) ?? [];
      this.#claims.set(check.port, new Map([...others, [key, check]]));
      this.#numbers.set(key, check.port);
      touched.add(check.port);
    }
    return touched;
  }

  /** Returns the check that has a port number. */
  holder(port: number): HealthCheck | undefined {
    return this.#sorted(port)[0];
  }

  /** Returns the numbers that any Service has. */
  ports(): readonly number[] {
    return [...this.#claims.keys()];
  }

  /** Returns, for administrators, the Services that have no check since another one has their number. */
  problems(): readonly string[] {
    return this.ports().flatMap((port) => {
      const [holder, ...others] = this.#sorted(port);
      return others.map(
        ({ key }) =>
          `Service ${key}: healthCheckNodePort ${port} is Service ${holder?.key}'s; expected a number of its own`,
      );
    });
  }

  #sorted(port: number): readonly HealthCheck[] {
    return [...(this.#claims.get(port)?.values() ?? [])].sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}
