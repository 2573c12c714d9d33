import { type Address, tryParseAddress } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { hostOf, portOf } from "./configured_sockets.ts";
import { API_SERVER, type ProtectedSocket } from "../../objects/socket_refusal.ts";

/** The sources of API servers' addresses, and their consumer. */
export interface ApiServersParts {
  /** Returns the servers that other programs of the node use: the kubelet's. */
  readonly others: () => readonly URL[];
  /** Returns the addresses of a name. Rejects where it has none or cannot be resolved. */
  readonly resolve: (name: string) => Promise<readonly Address[]>;
  readonly clock: Pick<Clock, "after" | "now">;
  /** Receives the changed sockets; resolves when no rule translates connections to them. Never rejects. */
  readonly protect: (sockets: readonly ProtectedSocket[]) => Promise<void>;
}

/** How often names and the kubelet's file are read again without a request. */
const PERIOD = 30_000;
/** How long a resolved name is not resolved again. */
const FRESH = 10_000;
/** The longest wait for a name or the kernel, so that protection never separates the daemon from its server. */
const LONGEST_WAIT = 3000;

/**
 * The API servers that this node uses, by the daemon's own requests and by the kubelet's kubeconfig. A request is sent
 * only after connections to its server's addresses are protected. A name that cannot be resolved keeps its last
 * addresses.
 */
export class ApiServers {
  readonly #parts: ApiServersParts;
  readonly #resolved = new Map<string, { readonly addresses: readonly Address[]; readonly at: number }>();
  #own: URL | undefined;
  #reported = "";
  #running: Promise<void> | undefined;
  readonly #loop: ControlLoop;

  constructor(parts: ApiServersParts) {
    this.#parts = parts;
    const pass = (): Promise<undefined> => this.#refresh().then(() => undefined);
    this.#loop = new ControlLoop({ clock: parts.clock, pass, pause: () => PERIOD });
  }

  /** Reads the other programs' servers for the first time, and then periodically. */
  start(): void {
    this.#loop.run();
  }

  /** Resolves when a request to a server may be sent. Never rejects. */
  async before(server: URL): Promise<void> {
    const isNew = server.host !== this.#own?.host || server.protocol !== this.#own.protocol;
    this.#own = server;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.after(LONGEST_WAIT, resolve);
    // A refresh in progress may have read the servers before this one was set.
    const earlier = isNew ? this.#running : undefined;
    void Promise.resolve(earlier).then(() => this.#refresh().then(resolve));
    await promise;
    cancel();
  }

  stop(): void {
    void this.#loop.stop();
  }

  #refresh(): Promise<void> {
    this.#running ??= this.#look().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #look(): Promise<void> {
    const { others, protect } = this.#parts;
    const urls = [...(this.#own === undefined ? [] : [this.#own]), ...others()];
    const lists = await Promise.all(urls.map((url) => this.#socketsOf(url)));
    const sockets = lists.flat();
    const text = sockets.map(({ address, port }) => `${typeof address} ${address} ${port}`).join();
    if (text !== this.#reported) {
      await protect(sockets);
      this.#reported = text;
    }
    this.#loop.enqueue();
  }

  async #socketsOf(url: URL): Promise<readonly ProtectedSocket[]> {
    const addresses = await this.#addressesOf(hostOf(url));
    const port = portOf(url);
    return addresses.map((address) => ({ address, protocol: "TCP", port, owner: API_SERVER }));
  }

  async #addressesOf(host: string): Promise<readonly Address[]> {
    const literal = tryParseAddress(host);
    if (literal !== undefined) return [literal];
    const { clock, resolve } = this.#parts;
    const known = this.#resolved.get(host);
    if (known !== undefined && clock.now() - known.at < FRESH) return known.addresses;
    try {
      const addresses = [...(await resolve(host))].sort((a, b) => (a < b ? -1 : 1));
      this.#resolved.set(host, { addresses, at: clock.now() });
      return addresses;
    } catch {
      // The request itself fails for the same reason, and reports it.
      return known?.addresses ?? [];
    }
  }
}
