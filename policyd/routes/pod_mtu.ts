import type { Encapsulation } from "../configuration/schema.ts";
import type { Family } from "../../kernel/ip/address.ts";
import { tunnelOverhead } from "./tunnel.ts";

/** The kernel turns IPv6 off on a device with a smaller MTU (RFC 8200, section 5). */
export const LEAST_IPV6_MTU = 1280;

/**
 * Returns the MTU of pods in bytes, the `mtu` of the plugin's configuration.
 *
 * `auto` leaves room for the tunnel even where all nodes are reached without it: a node behind a router may join later,
 * and pods keep the MTU they were created with.
 *
 * @param underlay MTU of the device that has the node's own address
 * @param outer family of that address
 */
export function podMtu(encapsulation: Encapsulation, underlay: number, outer: Family): number {
  return encapsulation === "never" ? underlay : underlay - tunnelOverhead(outer);
}
