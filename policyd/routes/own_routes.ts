import { type Route, ROUTE_PROTOCOL } from "../../kernel/route/route.ts";

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

/** The metric of our routes beside other bridges (policyd/coexistence/), which come before those of this folder. */
export const BESIDE_PRIORITY = 106;

/** The fields by which a route of ours is recognized. */
type Origin = Pick<Route, "protocol" | "priority">;

/** Whether a route was added by the code in this folder, so that it may be removed. */
export function isOurs({ protocol, priority }: Origin): boolean {
  return protocol === ROUTE_PROTOCOL && priority === ROUTE_PRIORITY;
}

/** Whether a route was added for pods beside another bridge. */
export function isBeside({ protocol, priority }: Origin): boolean {
  return protocol === ROUTE_PROTOCOL && priority === BESIDE_PRIORITY;
}
