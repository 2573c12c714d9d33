import type { Family } from "../../kernel/ip/address.ts";
import { ROUTE_PROTOCOL } from "../../kernel/route/route.ts";

/** The VXLAN device between nodes, and what all nodes of a cluster agree about. */
export const TUNNEL = { name: "drawbridge.vx", vni: 107, port: 4789 } as const;

/**
 * The routing table of what pods send to other nodes' own addresses through the tunnel. The node's own packets must not
 * find these routes, since those that carry the tunnel are among them.
 */
export const PODS_TABLE = 107;

/** Before the main table's rule, 32766. */
export const RULE_PRIORITY = 107;

/**
 * The metric of our routes. Together with the protocol it tells them from routes that the plugin makes in a pod, which
 * are ours too: a node may be a pod of another cluster.
 */
export const ROUTE_PRIORITY = 107;

/** Whether a route is one that this folder makes, so that it may be removed. */
export function isOurs({ protocol, priority }: { readonly protocol: number; readonly priority: number }): boolean {
  return protocol === ROUTE_PROTOCOL && priority === ROUTE_PRIORITY;
}

/** Bytes a packet grows by in the tunnel: outer IP header, UDP 8, VXLAN 8, inner Ethernet 14 (RFC 7348, section 5). */
export function tunnelOverhead(outer: Family): number {
  return outer === 4 ? 50 : 70;
}
