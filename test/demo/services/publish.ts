import { cidrFamily } from "../../../kernel/ip/cidr.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { routeTo } from "../../lab/topology.ts";
import { nodeAddresses, nodeOf, NODES, type World } from "../world.ts";
import type { ExpectedCell } from "./cells.ts";
import { expectedCells, type Plan } from "./expectation.ts";
import { type Frontend, SERVICE_NETWORKS, serviceShow } from "./frontends.ts";

/** Services that both nodes serve, with the expected results of each client. */
export interface PublishedServices {
  readonly plan: Plan;
  readonly frontends: readonly Frontend[];
  readonly expected: readonly ExpectedCell[];
}

/**
 * Adds Services of each kind to the cluster, and gives the router the routes to their addresses.
 *
 * @returns when both nodes' rules have them
 * @throws Error when they never do
 */
export async function publishServices(world: World): Promise<PublishedServices> {
  const { cluster } = world;
  const plan = planOf(world);
  const { node1 } = plan.nodes;
  for (const network of SERVICE_NETWORKS) {
    cluster.fabric.router.route.request(newRoute(routeTo(network, node1.uplink[cidrFamily(network)])));
  }
  // By default the kernel sends a client one refusal a second; here each is counted.
  for (const name of NODES) {
    for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) {
      nodeOf(world, name).writeSysctl(key, "0");
    }
  }
  const { frontends, manifests } = serviceShow({
    pods: plan.pods,
    nodeAddresses: node1.uplink,
    outside: plan.router,
  });
  await cluster.apply(...manifests);
  await cluster.untilInForce();
  return { plan, frontends, expected: expectedCells(plan, frontends, await cluster.server.objects()) };
}

function planOf(world: World): Plan {
  return {
    pods: world.pods.map(({ name, node, addresses }) => ({ name, node, addresses })),
    nodes: { node1: nodeAddresses(world, "node1"), node2: nodeAddresses(world, "node2") },
    router: world.cluster.fabric.addresses,
  };
}
