import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, familyOf, formatAddress, parseAddress } from "../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Logger } from "../log/logger.ts";
import type { Answer, HttpListener, Listening } from "../services/health_check/http_listener.ts";
import { type ListeningAddress, placeId } from "../services/health_check/listening_addresses.ts";

const RETRY_MILLISECONDS = 2000;
const ANY: readonly Address[] = ["0.0.0.0", "::"].map((text) => parseAddress(text));

export interface HealthServersParts {
  readonly listener: HttpListener;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly places: readonly ListeningAddress[];
  readonly answer: Answer;
}

/** Returns the sockets for a configured address: as in Go, an unspecified one of either family stands for both. */
export function healthPlaces({
  address,
  port,
}: {
  readonly address: Address;
  readonly port: number;
}): readonly ListeningAddress[] {
  const addresses = ANY.includes(address) ? ANY : [address];
  return addresses.map((one) => ({ family: familyOf(one), address: one, port }));
}

/** The servers of the daemon's own health. A port in use is reported once, and retried until it is free. */
export class HealthServers {
  readonly #parts: HealthServersParts;
  readonly #listening = new Set<Listening>();
  readonly #problems = new Map<string, string>();
  readonly #retries = new Map<string, Cancel>();
  #isStopped = false;

  constructor(parts: HealthServersParts) {
    this.#parts = parts;
    for (const place of parts.places) void this.#open(place);
  }

  problems(): readonly string[] {
    return [...this.#problems].map(
      ([place, problem]) =>
        `healthAddress: ${place}: ${problem}; policyd retries: stop the program that has it (kube-proxy?) or give another address`,
    );
  }

  /** Stops listening and closes every connection immediately. */
  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#retries.values()) cancel();
    for (const one of this.#listening) one.close();
  }

  async #open(place: ListeningAddress): Promise<void> {
    const { listener, answer } = this.#parts;
    try {
      const listening = await listener.listen(place, answer);
      if (this.#isStopped) return listening.close();
      this.#listening.add(listening);
      if (this.#problems.delete(placeId(place))) this.#parts.logger.info("health is served after all", where(place));
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#refused(place, error.message);
    }
  }

  #refused(place: ListeningAddress, reason: string): void {
    const { clock, logger } = this.#parts;
    // A kernel without IPv6 has no clients that use it.
    if (this.#isStopped || (place.family === 6 && ANY.includes(place.address) && reason.includes("EAFNOSUPPORT")))
      return;
    const id = placeId(place);
    if (!this.#problems.has(id)) {
      logger.warn("health is not served; it is tried again", { ...where(place), error: reason });
    }
    this.#problems.set(id, reason);
    this.#retries.set(
      id,
      clock.after(RETRY_MILLISECONDS, () => void this.#open(place)),
    );
  }
}

function where({ address, port }: ListeningAddress): { readonly address: string; readonly port: number } {
  return { address: formatAddress(address), port };
}
