import { setTimeout as pause } from "node:timers/promises";
import { FAMILIES } from "../../kernel/ip/address.ts";
import { HIDDEN_PODS } from "../../policyd/node/masquerade/share_rules.ts";
import { POLICY_SETS, POLICY_TABLE } from "../../policyd/policies/compile/policy_table.ts";
import { BRIDGE_TABLE, INET_TABLE } from "../../policyd/ruleset/table_part.ts";
import { ADDRESS_SETS } from "../../policyd/services/rules/frontend_sets.ts";
import { FRONTEND_KINDS } from "../../policyd/services/rules/frontend_kind.ts";
import { SERVICES_MASQUERADE } from "../../policyd/services/rules/nat_part.ts";
import { numberMap } from "../../policyd/services/rules/number_maps.ts";
import type { LabNode } from "../lab/lab.ts";
import { normalListing } from "../support/nftables/listing.ts";
import type { Check } from "./result.ts";
import { type NodeName, nodeOf, NODES, type World } from "./world.ts";

const DEADLINE_MILLISECONDS = 30_000;
const POLL_MILLISECONDS = 2;

/** The names of what `--break` can remove. */
export const BREAKAGES = ["route", "guard", "hairpin", "masquerade", "affinity", "policy"] as const;

export type BreakageName = (typeof BREAKAGES)[number];

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
 */
export async function breakWorld(world: World, name: BreakageName): Promise<Breakage> {
  const { nodes, verb, things } = removalOf(world, name);
  const remove = things.map((thing) => thing.replace("VERB", verb));
  const whole = new Map<NodeName, string>();
  for (const node of nodes) {
    await world.cluster.node(node).daemon.pause();
    whole.set(node, listed(nodeOf(world, node), things));
    for (const command of remove) runCommand(nodeOf(world, node), command);
  }
  return {
    description: `on ${nodes.join(" and ")}, while policyd is paused there: ${remove.join("; ")}`,
    resume: async () => {
      for (const node of nodes) world.cluster.node(node).daemon.child.kill("SIGCONT");
      const end = performance.now() + DEADLINE_MILLISECONDS;
      for (const node of nodes) {
        while (listed(nodeOf(world, node), things) !== whole.get(node)) {
          if (performance.now() > end) throw new Error(`policyd of ${node} did not restore what --break has removed`);
          await pause(POLL_MILLISECONDS);
        }
      }
    },
  };
}

interface Removal {
  readonly nodes: readonly NodeName[];
  /** The verb that removes a thing. */
  readonly verb: "delete" | "flush";
  /** Commands for each removed thing, with VERB in place of the verb. */
  readonly things: readonly string[];
}

function removalOf(world: World, name: BreakageName): Removal {
  const flush = (kind: string, names: readonly string[], { family, name: table } = INET_TABLE): Removal => ({
    nodes: NODES,
    verb: "flush",
    things: names.map((one) => `nft VERB ${kind} ${family} ${table} ${one}`),
  });
  const ofNode1 = (thing: string): Removal => ({ nodes: ["node1"], verb: "delete", things: [thing] });
  const bothFamilies = (set: string): readonly string[] => FAMILIES.map((family) => `${set}${family}`);
  switch (name) {
    case "route":
      return ofNode1(`ip route VERB ${world.cluster.node("node2").podCidrs[0]}`);
    case "guard":
      return ofNode1(`nft VERB table ${BRIDGE_TABLE.family} ${BRIDGE_TABLE.name}`);
    case "hairpin":
      return flush("set", bothFamilies(ADDRESS_SETS.hairpin));
    case "masquerade":
      return flush("chain", [SERVICES_MASQUERADE, HIDDEN_PODS]);
    case "affinity":
      return flush("map", FRONTEND_KINDS.map(numberMap));
    case "policy":
      return flush("map", bothFamilies(POLICY_SETS.ingress), POLICY_TABLE);
  }
}

/** Returns the present content of things; "gone" while a table does not exist. */
function listed(node: LabNode, things: readonly string[]): string {
  try {
    const texts = things.map((thing) =>
      runCommand(node, thing.replace("VERB", thing.startsWith("ip") ? "show" : "list")),
    );
    return normalListing(texts.join("\n"));
  } catch (error) {
    if (error instanceof Error && error.message.includes("No such file")) return "gone";
    throw error;
  }
}

function runCommand(node: LabNode, command: string): string {
  const [program = "", ...args] = command.split(" ");
  return node.exec(program, args);
}

/**
 * Returns a node's ruleset as nft lists it, without counters; the order of tables and chains does not depend on that in
 * which they were made.
 */
export function listRuleset(node: LabNode): string {
  const tables = normalListing(node.ruleset()).split(/^(?=table )/m);
  return tables
    .map((table) => withSortedChains(table.trim()))
    .sort()
    .join("\n");
}

/** Sorts the chains of a table: they come and go while a daemon runs, and their order means nothing. */
function withSortedChains(table: string): string {
  const [head = "", ...chains] = table.replace(/\}$/, "").split(/^(?=chain )/m);
  return [head, ...chains.map((chain) => chain.trim()).sort()].join("\n");
}

/**
 * Flushes a node's whole ruleset, as an administrator's mistake does, and waits until every table was made again and is
 * listed as before.
 *
 * @param whole the result of {@link listRuleset} when nothing was missing
 */
export async function flushRuleset(node: LabNode, whole: string): Promise<Check> {
  const before = tableHandles(node);
  const start = performance.now();
  node.exec("nft", ["flush", "ruleset"]);
  for (;;) {
    const isWhole = listRuleset(node) === whole;
    const elapsed = performance.now() - start;
    const now = tableHandles(node);
    // The kernel never uses a handle twice: a table of another handle was made after the flush.
    const isGood = isWhole && [...now].every((handle) => !before.has(handle));
    if (isGood || elapsed > DEADLINE_MILLISECONDS) {
      const time = isGood ? `restored after ${elapsed.toFixed(0)} ms` : "not restored in time";
      return { isGood, text: `nft flush ruleset on ${node.name}: ${now.size} tables, ${time}` };
    }
    await pause(POLL_MILLISECONDS);
  }
}

function tableHandles(node: LabNode): ReadonlySet<string> {
  return new Set([...node.ruleset("-a").matchAll(/^table .* # handle (\d+)$/gm)].map(([, handle = ""]) => handle));
}
