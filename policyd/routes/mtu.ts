import type { Family } from "../../kernel/ip/address.ts";
import { tunnelOverhead } from "./names.ts";

/** Below this the kernel takes IPv6 from a device (RFC 8200, section 5). */
export const LEAST_IPV6_MTU = 1280;

/** How packets get to pods of other nodes. */
export const ENCAPSULATIONS = ["auto", "always", "never"] as const;

export type Encapsulation = (typeof ENCAPSULATIONS)[number];

/**
 * Bytes of the largest packet of a pod: what the plugin's configuration has as `mtu`.
 *
 * With `auto` room for the tunnel is left although some nodes, or all, are reached without it: a node behind a router may
 * join, and pods keep the MTU they were made with.
 *
 * @param underlay MTU of the device that has the node's own address
 * @param outer family of that address
 */
export function podMtu(encapsulation: Encapsulation, underlay: number, outer: Family): number {
  return encapsulation === "never" ? underlay : underlay - tunnelOverhead(outer);
}
