import type { Family } from "../../kernel/ip/address.ts";
import { ROUTE_PROTOCOL } from "../../kernel/route/route.ts";

/** The VXLAN device between nodes. All nodes of a cluster need the same VNI and port. */
export const TUNNEL = { name: "drawbridge.vx", vni: 107, port: 4789 } as const;

/**
 * The routing table for packets from pods to other nodes' own addresses, which go through the tunnel. The node's own
 * packets must not use these routes, since the packets that carry the tunnel are among them.
 */
export const PODS_TABLE = 107;

/** The priority of our rules, which come before the main table's rule 32766. */
export const RULE_PRIORITY = 107;

/**
 * The metric of our routes. It distinguishes them from the plugin's routes in a pod, which have the same protocol: a
 * node may be a pod of another cluster.
 */
export const ROUTE_PRIORITY = 107;

/** Whether a route was added by the code in this folder, so that it may be removed. */
export function isOurs({ protocol, priority }: { readonly protocol: number; readonly priority: number }): boolean {
  return protocol === ROUTE_PROTOCOL && priority === ROUTE_PRIORITY;
}

/** Returns the tunnel's overhead in bytes: outer IP header, UDP 8, VXLAN 8, inner Ethernet 14 (RFC 7348, section 5). */
export function tunnelOverhead(outer: Family): number {
  return outer === 4 ? 50 : 70;
}
