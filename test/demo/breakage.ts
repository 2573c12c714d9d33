import { FAMILIES } from "../../kernel/ip/address.ts";
import { setTimeout as pause } from "node:timers/promises";
import { BRIDGE_TABLE, INET_TABLE } from "../../policyd/ruleset/table_part.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../policyd/policies/compile/policy_table.ts";
import { HIDDEN_PODS } from "../../policyd/node/masquerade/share_rules.ts";
import { SERVICES_MASQUERADE } from "../../policyd/services/rules/nat_part.ts";
import { numberMap } from "../../policyd/services/rules/number_maps.ts";
import { ADDRESS_SETS } from "../../policyd/services/rules/frontend_sets.ts";
import { FRONTEND_KINDS } from "../../policyd/services/rules/frontend_kind.ts";
import type { LabNode } from "../lab/lab.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { type NodeName, nodeOf, NODES, type World } from "./world.ts";

/** The names of what `--break` can remove. */
export const BREAKAGES = ["route", "guard", "hairpin", "masquerade", "affinity", "policy"] as const;

export type BreakageName = (typeof BREAKAGES)[number];

const DEADLINE_MILLISECONDS = 30_000;
const POLL_MILLISECONDS = 10;

/** A removal, and the way to undo it. */
export interface Breakage {
  /** A description for people. */
  readonly description: string;
  /** Continues the daemons, which put it back. @returns when they have @throws Error when they do not */
  readonly resume: () => Promise<void>;
}

/**
 * Removes one thing from a working world; the expectation does not change. The policyd of its node would put it back at
 * once, so it is paused from here to {@link Breakage.resume}.
 *
 * "route": node1 loses the route to node2's IPv4 pod range, so IPv4 between node1 and node2's pods has no route there
 * or no route back.
 *
 * "guard": node1 loses the table that keeps pods to their own addresses; the breakages below affect both nodes.
 *
 * "hairpin": the packets that a Service sends back to their own pod, which need the bridge's address, are not
 * recognised.
 *
 * "masquerade": no packet to a Service gets a node's address as its source, hairpin or not.
 *
 * "affinity": no frontend has the number under which its clients are remembered.
 *
 * "policy": no packet goes to the profile of its destination, so policies keep nothing from pods. (Without the verdicts
 * nothing would reach these pods.)
 */
export async function breakWorld(world: World, name: BreakageName): Promise<Breakage> {
  switch (name) {
    case "route": {
      const [range = ""] = world.cluster.node("node2").podCidrs;
      return await remove(world, ["node1"], {
        what: `route to ${range}`,
        take: (node) => void node.exec("ip", ["route", "delete", range]),
        list: (node) => node.exec("ip", ["route", "show", range]),
      });
    }
    case "guard": {
      const { family, name: table } = BRIDGE_TABLE;
      return await remove(world, ["node1"], rules("delete", "table", [`${family} ${table}`]));
    }
    case "hairpin":
      return await flush(
        world,
        "set",
        FAMILIES.map((family) => `${ADDRESS_SETS.hairpin}${family}`),
      );
    case "masquerade":
      return await flush(world, "chain", [SERVICES_MASQUERADE, HIDDEN_PODS]);
    case "affinity":
      return await flush(world, "map", FRONTEND_KINDS.map(numberMap));
    case "policy":
      return await remove(world, NODES, profilesOfReceivers());
  }
}

/** State of a node that can be removed. */
interface Removal {
  /** Its name for people. */
  readonly what: string;
  readonly take: (node: LabNode) => void;
  /** Returns its present content, as the machine's own programs list it. */
  readonly list: (node: LabNode) => string | undefined;
}

type RuleKind = "table" | "set" | "map" | "chain";

/**
 * Removes the verdicts that send packets to the profiles of their destinations: these pods become pods that no policy
 * selects.
 */
function profilesOfReceivers(): Removal {
  const { family: tableFamily, name: table } = POLICY_TABLE;
  const maps = FAMILIES.map((family) => `${tableFamily} ${table} ${POLICY_SETS.ingress}${family}`);
  const list = (node: LabNode): string =>
    normalListing(maps.map((map) => node.exec("nft", ["list", "map", ...map.split(" ")])).join("\n"));
  return {
    what: `profiles from map ${maps.join(", ")}`,
    list,
    take: (node) => {
      const changes = maps.flatMap((map) =>
        [...node.exec("nft", ["list", "map", ...map.split(" ")]).matchAll(/([0-9a-f.:]+) : goto \S+/g)].flatMap(
          ([, address]) => [`delete element ${map} { ${address} }`, `add element ${map} { ${address} : return }`],
        ),
      );
      node.exec("nft", ["-f", "-"], changes.join("\n"));
    },
  };
}

async function flush(world: World, kind: RuleKind, names: readonly string[]): Promise<Breakage> {
  const { family, name: table } = INET_TABLE;
  const full = names.map((name) => `${family} ${table} ${name}`);
  return await remove(world, NODES, rules("flush", kind, full));
}

/** Removes objects of nftables. The names are in nft's form, with their table. */
function rules(verb: "delete" | "flush", kind: RuleKind, names: readonly string[]): Removal {
  return {
    what: `${verb === "flush" ? "what was in " : ""}${kind} ${names.join(", ")}`,
    take: (node) => void node.exec("nft", ["-f", "-"], names.map((name) => `${verb} ${kind} ${name}`).join("\n")),
    list: (node) => {
      try {
        return normalListing(names.map((name) => node.exec("nft", ["list", kind, ...name.split(" ")])).join("\n"));
      } catch (error) {
        if (error instanceof Error && error.message.includes("No such file")) return undefined;
        throw error;
      }
    },
  };
}

async function remove(world: World, names: readonly NodeName[], { what, take, list }: Removal): Promise<Breakage> {
  const whole = new Map<NodeName, string | undefined>();
  for (const name of names) {
    await world.cluster.node(name).daemon.pause();
    whole.set(name, list(nodeOf(world, name)));
    take(nodeOf(world, name));
  }
  return {
    description: `removed from ${names.join(" and ")}, while policyd is paused there: ${what}`,
    resume: async () => {
      for (const name of names) world.cluster.node(name).daemon.child.kill("SIGCONT");
      const end = performance.now() + DEADLINE_MILLISECONDS;
      for (const name of names) {
        while (list(nodeOf(world, name)) !== whole.get(name)) {
          if (performance.now() > end) throw new Error(`policyd of ${name} did not restore ${what}`);
          await pause(POLL_MILLISECONDS);
        }
      }
    },
  };
}
