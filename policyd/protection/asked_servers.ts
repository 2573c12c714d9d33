import type { Address } from "../../kernel/ip/address.ts";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../clock.ts";
import { hostOf, portOf } from "./configured_sockets.ts";
import type { ProtectedSocket } from "./refusal.ts";
import { API_SERVER } from "./refusal.ts";

/** Where the addresses of API servers come from, and where they go. */
export interface AskedServersParts {
  /** The servers that other programs of the node ask: the kubelet. */
  readonly others: () => readonly URL[];
  /** The addresses of a name. It rejects where there are none, or nobody knows. */
  readonly resolve: (name: string) => Promise<readonly Address[]>;
  readonly clock: Pick<Clock, "after" | "now">;
  /** Settles when connections to these sockets, which have changed, are not translated any more; it never rejects. */
  readonly protect: (sockets: readonly ProtectedSocket[]) => Promise<void>;
}

/** How often names and the kubelet's file are looked at while no request asks for it. */
const PERIOD = 30_000;
/** For so long a name that was resolved is not resolved again. */
const FRESH = 10_000;
/** No request waits longer than this for a name or for the kernel: protection must not be what keeps the daemon from its server. */
const LONGEST_WAIT = 3000;

/**
 * The API servers that this node asks, by the daemon's own requests and by the kubelet's kubeconfig: a request is sent when connections
 * to the addresses of its server are protected. A name keeps its last addresses while it cannot be resolved.
 */
export class AskedServers {
  readonly #parts: AskedServersParts;
  readonly #resolved = new Map<string, { readonly addresses: readonly Address[]; readonly at: number }>();
  #own: URL | undefined;
  #told = "";
  #running: Promise<void> | undefined;
  #timer: Cancel | undefined;
  #isStopped = false;

  constructor(parts: AskedServersParts) {
    this.#parts = parts;
  }

  /** Looks at the others for the first time, and from then on by itself. */
  start(): void {
    void this.#refresh();
  }

  /** Settles when a request to a server may be sent. It never rejects. */
  async before(server: URL): Promise<void> {
    const isNew = server.host !== this.#own?.host || server.protocol !== this.#own.protocol;
    this.#own = server;
    // One that runs may have looked at the server before.
    if (isNew) await this.#running;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#parts.clock.after(LONGEST_WAIT, resolve);
    void this.#refresh().then(resolve);
    await promise;
    cancel();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.();
  }

  #refresh(): Promise<void> {
    this.#running ??= this.#look().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #look(): Promise<void> {
    const { others, clock, protect } = this.#parts;
    this.#timer?.();
    const urls = [...(this.#own === undefined ? [] : [this.#own]), ...others()];
    const lists = await Promise.all(urls.map((url) => this.#socketsOf(url)));
    const sockets = lists.flat();
    const text = sockets.map(({ address, port }) => `${typeof address} ${address} ${port}`).join();
    if (text !== this.#told) {
      await protect(sockets);
      this.#told = text;
    }
    if (!this.#isStopped) this.#timer = clock.after(PERIOD, () => void this.#refresh());
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
      // The request itself fails for the same reason, and says so.
      return known?.addresses ?? [];
    }
  }
}
