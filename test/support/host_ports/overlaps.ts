import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Configuration } from "../../lab/cni.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { mapping } from "./published.ts";

/** What a pod with the held ones keeps from others, and what it does not. */
export interface Overlaps {
  readonly held: readonly Configuration[];
  readonly taken: readonly Configuration[];
  readonly free: readonly Configuration[];
}

/** Ports of all addresses and of one, and what overlaps with them (R6). */
export function overlaps({ addresses, gateways }: WiredNode): Overlaps {
  const address = formatAddress(addresses[0]);
  return {
    held: [mapping(7000), mapping(7001, "tcp", address)],
    taken: [
      mapping(7000),
      mapping(7000, "tcp", address),
      mapping(7000, "TCP", "::"),
      mapping(7001),
      mapping(7001, "tcp", address),
      mapping(7001, "tcp", "0.0.0.0"),
    ],
    free: [mapping(7000, "udp"), mapping(7001, "tcp", formatAddress(gateways[0])), mapping(7001, "tcp", "::")],
  };
}
