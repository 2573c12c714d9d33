import { type Address, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import type { Fields } from "../log/logger.ts";
import { type Answer, type ListeningAddress, nodeHttpListener, placeId } from "./http_listener.ts";
import { ANY, Listeners } from "./listeners.ts";

const RETRY_MILLISECONDS = 2000;

export interface ReportedServersParts {
  readonly clock: Clock;
  /** Reports the first refusal of a socket. */
  readonly onRefused: (fields: Fields) => void;
  /** Reports that a socket which was refused is open after all. */
  readonly onOpen: (fields: Fields) => void;
  readonly addresses: readonly Address[];
  readonly port: number;
  readonly answer: Answer;
}

/** Returns the addresses that a configured one stands for: as in Go, an unspecified one of either family for both. */
export function servedAddresses(address: Address): readonly Address[] {
  return ANY.includes(address) ? ANY : [address];
}

/** The servers of one port. */
export interface ReportedServers {
  /** Returns the sockets at which they do not listen yet, with the reasons: `10.0.0.1 80: listen EADDRINUSE …`. */
  problems(): readonly string[];
  stop(): void;
}

/** Serves HTTP in the network namespace of this thread. A port in use is reported once, and retried until it is free. */
export function reportedServers(parts: ReportedServersParts): ReportedServers {
  const { clock, onRefused, onOpen, addresses, port, answer } = parts;
  const listener = nodeHttpListener();
  const listeners = new Listeners({
    clock,
    open: (place) => listener.listen(place, answer),
    onRefused: (place, error, isFirst) => {
      if (isFirst) onRefused({ ...where(place), error });
    },
    onOpen: (place) => onOpen(where(place)),
    retries: [RETRY_MILLISECONDS, RETRY_MILLISECONDS],
  });
  listeners.replace(
    [],
    addresses.map((address) => ({ family: familyOf(address), address, port })),
  );
  return {
    problems: () => listeners.problems().map(([place, problem]) => `${placeId(place)}: ${problem}`),
    stop: () => listeners.stop(),
  };
}

function where({ address, port }: ListeningAddress): { readonly address: string; readonly port: number } {
  return { address: formatAddress(address), port };
}
