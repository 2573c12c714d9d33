import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import { deleteRoute } from "../../kernel/route/route.ts";
import { BRIDGE_TABLE } from "../../policyd/node/table_part.ts";
import { routeTo } from "../lab/topology.ts";
import type { World } from "./world.ts";

/** What `--break` can remove. */
export const BREAKAGES = ["route", "guard"] as const;

export type BreakageName = (typeof BREAKAGES)[number];

/** What was removed. */
export interface Breakage {
  /** For people. */
  readonly description: string;
  /** Lets those go on who would have put it back. */
  readonly resume: () => void;
}

/**
 * Removes one thing from a working world; the expectation stays what it was.
 *
 * "route": the router forgets the way to node2's IPv4 pod range, so IPv4 between node1 and node2's pods has no way
 * there or no way back.
 *
 * "guard": node1 loses the table that keeps pods to their own addresses. Its policyd would put it back at once, so it
 * stands still from here to {@link Breakage.resume}.
 */
export async function breakWorld(world: World, name: BreakageName): Promise<Breakage> {
  switch (name) {
    case "route": {
      const { podCidrs, addresses } = world.nodes.node2;
      world.nodes.router.route.request(deleteRoute(routeTo(podCidrs[0], addresses[0])));
      const description = `removed from the router: route ${formatCidr(podCidrs[0])} via ${formatAddress(addresses[0])} (node2)`;
      return { description, resume: () => {} };
    }
    case "guard": {
      const daemon = world.daemons.node1.process;
      await daemon.pause();
      const { family, name: table } = BRIDGE_TABLE;
      world.nodes.node1.node.exec("nft", ["delete", "table", family, table]);
      return {
        description: `removed from node1, while its policyd is paused: table ${family} ${table}`,
        resume: () => void daemon.child.kill("SIGCONT"),
      };
    }
  }
}
