import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, familyOf, formatAddress, parseAddress } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../log/logger.ts";
import type { Answer, HttpListener, Listening } from "../services/health_check/http_listener.ts";
import { Listeners } from "../services/health_check/listeners.ts";
import { type ListeningAddress, placeId } from "../services/health_check/listening_addresses.ts";

const RETRIES = [2000, 2000] as const;
const ANY: readonly Address[] = ["0.0.0.0", "::"].map((text) => parseAddress(text));

export interface HealthServersParts {
  readonly listener: HttpListener;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly places: readonly ListeningAddress[];
  readonly answer: Answer;
}

/** The servers of the daemon's own health. */
export interface HealthServers {
  problems(): readonly string[];
  stop(): void;
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

/** Serves the daemon's own health. A port in use is reported once, and retried until it is free. */
export function serveHealth({ listener, clock, logger, places, answer }: HealthServersParts): HealthServers {
  const open = async (place: ListeningAddress): Promise<Listening> => {
    try {
      return await listener.listen(place, answer);
    } catch (error) {
      // A kernel without IPv6 has no clients that use it.
      const isWithoutFamily = error instanceof DrawbridgeError && error.message.includes("EAFNOSUPPORT");
      if (isWithoutFamily && place.family === 6 && ANY.includes(place.address)) return { close: () => {} };
      throw error;
    }
  };
  const listeners = new Listeners({
    clock,
    open,
    onRefused: (place, error, isFirst) => {
      if (isFirst) logger.warn("health is not served; it is tried again", { ...where(place), error });
    },
    onOpen: (place) => logger.info("health is served after all", where(place)),
    retries: RETRIES,
  });
  listeners.replace([], places);
  return {
    problems(): readonly string[] {
      return listeners
        .problems()
        .map(
          ([place, problem]) =>
            `healthAddress: ${placeId(place)}: ${problem}; policyd retries: stop the program that has it (kube-proxy?) or give another address`,
        );
    },
    stop: () => listeners.stop(),
  };
}

function where({ address, port }: ListeningAddress): { readonly address: string; readonly port: number } {
  return { address: formatAddress(address), port };
}
