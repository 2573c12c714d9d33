import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import { deleteRoute } from "../../kernel/route/route.ts";
import { routeTo } from "../lab/topology.ts";
import type { World } from "./world.ts";

/** What `--break` can remove. */
export const BREAKAGES = ["route"] as const;

export type BreakageName = (typeof BREAKAGES)[number];

/**
 * Removes one thing from a working world; the expectation stays what it was.
 *
 * "route": the router forgets the way to node2's IPv4 pod range, so IPv4 between node1 and node2's pods has no way
 * there or no way back.
 *
 * @returns what was removed, for people
 */
export function breakWorld(world: World, name: BreakageName): string {
  switch (name) {
    case "route": {
      const { podCidrs, addresses } = world.nodes.node2;
      world.nodes.router.route.request(deleteRoute(routeTo(podCidrs[0], addresses[0])));
      return `removed from the router: route ${formatCidr(podCidrs[0])} via ${formatAddress(addresses[0])} (node2)`;
    }
  }
}
