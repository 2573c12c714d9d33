import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Configuration } from "../../lab/cni.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { mapping } from "./published.ts";

/** The host ports that a pod holds, those that no other pod can have then, and those that it still can. */
export interface Overlaps {
  readonly held: readonly Configuration[];
  readonly taken: readonly Configuration[];
  readonly free: readonly Configuration[];
}

/** Returns host ports of all addresses and of one address, with the ports that overlap with them (R6). */
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
