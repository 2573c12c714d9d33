import { setTimeout as pause } from "node:timers/promises";
import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import { deleteRoute } from "../../kernel/route/route.ts";
import { BRIDGE_TABLE, INET_TABLE } from "../../policyd/node/table_part.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../policyd/policy/compile/policy_table.ts";
import { portMap } from "../../policyd/services/compile/affinity_part.ts";
import { ADDRESS_SETS } from "../../policyd/services/compile/frontend_sets.ts";
import { FAMILIES, FRONTEND_KINDS } from "../../policyd/services/compile/frontend_space.ts";
import type { LabNode } from "../lab/lab.ts";
import { routeTo } from "../lab/topology.ts";
import { normalListing } from "../support/nftables/listing.ts";
import type { NodeName, World } from "./world.ts";
import { NODES } from "./world.ts";

/** What `--break` can remove. */
export const BREAKAGES = ["route", "guard", "hairpin", "masquerade", "affinity", "policy"] as const;

export type BreakageName = (typeof BREAKAGES)[number];

/** Where Services masquerade (policyd/services/compile/nat_part.ts). */
const MASQUERADE_CHAIN = "services_postrouting";

const DEADLINE_MILLISECONDS = 10_000;
const POLL_MILLISECONDS = 10;

/** What was removed. */
export interface Breakage {
  /** For people. */
  readonly description: string;
  /** Lets those go on who would have put it back. @returns when they have @throws Error when they do not */
  readonly resume: () => Promise<void>;
}

/**
 * Removes one thing from a working world; the expectation stays what it was.
 *
 * "route": the router forgets the way to node2's IPv4 pod range, so IPv4 between node1 and node2's pods has no way
 * there or no way back.
 *
 * "guard": node1 loses the table that keeps pods to their own addresses. Its policyd would put it back at once, so it
 * stands still from here to {@link Breakage.resume}; both nodes' do for what follows.
 *
 * "hairpin": nothing tells the packets that a Service sends back to their pod, which need the bridge's address.
 *
 * "masquerade": no packet to a Service gets a node's address as its source, hairpin or not.
 *
 * "affinity": no frontend has the number under which its clients are remembered.
 *
 * "policy": no packet is sent to the profile of the pod it is for, so policies keep nothing from pods.
 */
export async function breakWorld(world: World, name: BreakageName): Promise<Breakage> {
  switch (name) {
    case "route": {
      const { podCidrs, addresses } = world.nodes.node2;
      world.nodes.router.route.request(deleteRoute(routeTo(podCidrs[0], addresses[0])));
      const description = `removed from the router: route ${formatCidr(podCidrs[0])} via ${formatAddress(addresses[0])} (node2)`;
      return { description, resume: async () => {} };
    }
    case "guard": {
      const { family, name: table } = BRIDGE_TABLE;
      return await removeRules(world, ["node1"], { verb: "delete", kind: "table", names: [`${family} ${table}`] });
    }
    case "hairpin":
      return await flush(
        world,
        "set",
        FAMILIES.map((family) => `${ADDRESS_SETS.hairpin}${family}`),
      );
    case "masquerade":
      return await flush(world, "chain", [MASQUERADE_CHAIN]);
    case "affinity":
      return await flush(world, "map", FRONTEND_KINDS.map(portMap));
    case "policy":
      return await flush(
        world,
        "map",
        FAMILIES.map((family) => `${POLICY_SETS.ingress}${family}`),
        POLICY_TABLE,
      );
  }
}

/** Objects of nftables and what nft does to them; the names as nft wants them, with their table. */
interface Removal {
  readonly verb: "delete" | "flush";
  readonly kind: "table" | "set" | "map" | "chain";
  readonly names: readonly string[];
}

async function flush(
  world: World,
  kind: Removal["kind"],
  names: readonly string[],
  { family, name: table } = INET_TABLE,
): Promise<Breakage> {
  const full = names.map((name) => `${family} ${table} ${name}`);
  return await removeRules(world, NODES, { verb: "flush", kind, names: full });
}

async function removeRules(world: World, nodes: readonly NodeName[], removal: Removal): Promise<Breakage> {
  const { verb, kind, names } = removal;
  const whole = new Map<NodeName, string | undefined>();
  for (const name of nodes) {
    const { node } = world.nodes[name];
    await world.daemons[name].process.pause();
    whole.set(name, listingOf(node, removal));
    node.exec("nft", ["-f", "-"], names.map((one) => `${verb} ${kind} ${one}`).join("\n"));
  }
  const what = `${verb === "flush" ? "what was in " : ""}${kind} ${names.join(", ")}`;
  return {
    description: `removed from ${nodes.join(" and ")}, while policyd is paused there: ${what}`,
    resume: async () => {
      for (const name of nodes) world.daemons[name].process.child.kill("SIGCONT");
      const end = performance.now() + DEADLINE_MILLISECONDS;
      for (const name of nodes) {
        while (listingOf(world.nodes[name].node, removal) !== whole.get(name)) {
          if (performance.now() > end) throw new Error(`policyd of ${name} did not put back ${what}`);
          await pause(POLL_MILLISECONDS);
        }
      }
    },
  };
}

/** The objects as nft lists them, without what counts; undefined when one is not there. */
function listingOf(node: LabNode, { kind, names }: Removal): string | undefined {
  try {
    return normalListing(names.map((name) => node.exec("nft", ["list", kind, ...name.split(" ")])).join("\n"));
  } catch (error) {
    if (error instanceof Error && error.message.includes("No such file")) return undefined;
    throw error;
  }
}
