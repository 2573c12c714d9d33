import type { Cidr } from "../../kernel/ip/cidr.ts";
import { ROUTE_PROTOCOL } from "../../kernel/route/route.ts";
import { doOverlap } from "../../objects/nodes/node_claims.ts";
import type { JudgedNode } from "../../objects/nodes/node_verdict.ts";
import { atOnce } from "../lib/sliced_work.ts";
import type { DesiredEntries } from "./desired.ts";
import { type EntryState, entrySteps } from "./difference.ts";
import type { KernelState, Step, TunnelState } from "./route_kernel/kernel_state.ts";
import { ROUTE_PRIORITY } from "./own_routes.ts";
import type { PeerRoutes } from "./peer_routes.ts";
import { peerOf } from "./peers.ts";
import type { PlanUse, RoutePlan } from "./route_plan.ts";

/** For more nodes at once a full pass, which works in slices, blocks the thread for less time. */
const MOST_NODES = 32;

/**
 * Updates a plan for some nodes, and returns the steps that bring the kernel from the old plan to the new one.
 *
 * @param nodes what is believed of all nodes
 * @param tunnel the tunnel's device
 * @returns undefined where the change affects more than the routes to these nodes: then build the plan again
 */
export function nodeSteps(
  names: ReadonlySet<string>,
  nodes: ReadonlyMap<string, JudgedNode>,
  {
    nodeName,
    plan,
    tunnel,
  }: { readonly nodeName: string; readonly plan: RoutePlan; readonly tunnel: KernelState["tunnel"] },
): readonly Step[] | undefined {
  if (names.size > MOST_NODES || names.has(nodeName) || plan.hasTwins) return undefined;
  const use = plan.use;
  const before = [...names].map((name) => plan.of(name));
  // All are deleted before any is added: an address may have moved from one node to another.
  for (const name of names) plan.delete(name);
  for (const name of names) {
    const node = nodes.get(name);
    if (node !== undefined) plan.add(peerOf(node));
    // The gateway of an earlier pod CIDR may have to go first.
    const overlaps = (cidr: Cidr): boolean => plan.surroundings.connected.some((network) => doOverlap(network, cidr));
    if (node?.podCidrs.some(overlaps) === true) return undefined;
  }
  if (plan.hasTwins || !isSameUse(use, plan.use)) return undefined;
  const after = [...names].map((name) => plan.of(name));
  return atOnce(entrySteps({ ...joined(after), rules: [] }, stateOf(joined(before), tunnel)));
}

function isSameUse(a: PlanUse, b: PlanUse): boolean {
  return (
    a.hasTunnel === b.hasTunnel &&
    a.hasIpv6InTunnel === b.hasIpv6InTunnel &&
    a.podsTable[4] === b.podsTable[4] &&
    a.podsTable[6] === b.podsTable[6]
  );
}

function joined(peers: readonly PeerRoutes[]): Omit<DesiredEntries, "rules"> {
  return {
    forwarding: peers.flatMap(({ forwarding }) => forwarding),
    neighbours: peers.flatMap(({ neighbours }) => neighbours),
    routes: peers.flatMap(({ routes }) => routes),
  };
}

/** Returns the kernel's state for these entries, assuming that it has them. */
function stateOf(
  { forwarding, neighbours, routes }: Omit<DesiredEntries, "rules">,
  tunnel: TunnelState | undefined,
): EntryState {
  return {
    tunnel: tunnel && { ...tunnel, forwarding, neighbours },
    rules: [],
    routes: routes.flatMap(({ device, isTaken, ...route }) => {
      const outputInterface = device === "tunnel" ? tunnel?.index : device;
      if (isTaken || outputInterface === undefined) return [];
      return [
        { ...route, outputInterface, protocol: ROUTE_PROTOCOL, priority: ROUTE_PRIORITY, hasOtherNextHop: false },
      ];
    }),
  };
}
