import { setTimeout as pause } from "node:timers/promises";
import { familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import type { Address, Family } from "../../../kernel/ip/address.ts";
import { cidrFamily } from "../../../kernel/ip/cidr.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { routeTo } from "../../lab/topology.ts";
import type { Cluster } from "../cluster.ts";
import { listRuleset } from "../harm.ts";
import type { NodeName, World } from "../world.ts";
import { NODES } from "../world.ts";
import type { ExpectedCell } from "./cells.ts";
import type { NodePlan, Plan } from "./expectation.ts";
import { expectedCells } from "./expectation.ts";
import type { Frontend } from "./frontends.ts";
import { SERVICE_NETWORKS, serviceShow } from "./frontends.ts";

const DEADLINE_MILLISECONDS = 10_000;
const POLL_MILLISECONDS = 10;

/** Services that both nodes serve, with what they owe each client. */
export interface PublishedServices {
  readonly plan: Plan;
  readonly frontends: readonly Frontend[];
  readonly expected: readonly ExpectedCell[];
}

/**
 * Adds Services of each kind to the cluster, and lets the router know the way to their addresses.
 *
 * @returns when both nodes' rules have them
 * @throws Error when they do not come
 */
export async function publishServices(world: World, cluster: Cluster): Promise<PublishedServices> {
  const plan = planOf(world);
  const { node1 } = plan.nodes;
  const { router } = world.nodes;
  for (const network of SERVICE_NETWORKS) {
    router.route.request(newRoute(routeTo(network, node1.uplink[cidrFamily(network)])));
  }
  // The kernel tells one client of one refusal a second; here each is counted.
  for (const name of NODES) {
    for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) {
      world.nodes[name].node.writeSysctl(key, "0");
    }
  }
  const show = serviceShow({ pods: plan.pods, nodeAddresses: node1.uplink, outside: node1.router });
  cluster.addServices(show.manifests);
  const { frontends } = show;
  await Promise.all(NODES.map((name) => untilServed(world, name, frontends)));
  return { plan, frontends, expected: expectedCells(plan, frontends, cluster.objects) };
}

/** The cluster IPs are in no rule but as elements, and one file's elements come all at once. */
async function untilServed(world: World, name: NodeName, frontends: readonly Frontend[]): Promise<void> {
  const first = frontends[0]?.addresses[4].map((address) => formatAddress(address)) ?? [];
  const end = performance.now() + DEADLINE_MILLISECONDS;
  for (;;) {
    const listing = listRuleset(world.nodes[name].node);
    if (first.every((text) => listing.includes(text))) return;
    if (performance.now() > end) throw new Error(`policyd of ${name} does not serve the Services`);
    await pause(POLL_MILLISECONDS);
  }
}

function planOf({ nodes, pods }: World): Plan {
  const nodePlan = (name: NodeName): NodePlan => ({
    uplink: byFamily(nodes[name].addresses),
    bridge: byFamily(nodes[name].gateways),
    router: byFamily(nodes[name].routerAddresses),
  });
  return {
    pods: pods.map(({ name, node, addresses }) => ({ name, node, addresses })),
    nodes: { node1: nodePlan("node1"), node2: nodePlan("node2") },
  };
}

function byFamily([v4, v6]: readonly [Address, Address]): Readonly<Record<Family, Address>> {
  if (familyOf(v4) !== 4 || familyOf(v6) !== 6) throw new Error("expected an IPv4 and an IPv6 address");
  return { 4: v4, 6: v6 };
}
