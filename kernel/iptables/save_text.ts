import type { ForeignChain, ForeignHook, ForeignRule, ForeignTable } from "../nftables/foreign/foreign_ruleset.ts";
import { ruleSteps } from "./rule_text.ts";
import { words } from "./line_words.ts";

/** The hooks and priorities of the built-in chains (include/uapi/linux/netfilter_ipv4.h). */
const HOOKS: Readonly<Record<string, ForeignHook | undefined>> = {
  PREROUTING: "prerouting",
  INPUT: "input",
  FORWARD: "forward",
  OUTPUT: "output",
  POSTROUTING: "postrouting",
};
const PRIORITIES: Readonly<Record<string, number | undefined>> = { raw: -300, mangle: -150, filter: 0, security: 50 };
const DESTINATION_NAT = -100;
const SOURCE_NAT = 100;

/** More than the rules of any chain, so that a rule's number also identifies its chain. */
const CHAIN_STEP = 1_000_000n;

interface Chain {
  readonly base: ForeignChain["base"];
  readonly number: bigint;
  readonly rules: ForeignRule[];
}

/**
 * Returns the tables that `iptables-save` prints, as foreign tables: those of ip_tables, which netlink does not show.
 *
 * A rule's handle contains its place in its chain ({@link ruleNumber}). A rule with an unknown option may match.
 */
export function parseSaveText(text: string, family: "ip" | "ip6"): readonly ForeignTable[] {
  const tables: ForeignTable[] = [];
  let name = "";
  let chains = new Map<string, Chain>();
  let rules: (readonly [chain: string, rule: readonly string[]])[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) {
      name = line.slice(1).trim();
      chains = new Map();
      rules = [];
    } else if (line.startsWith(":")) {
      const [chain = "", policy = "-"] = line.slice(1).split(" ");
      chains.set(chain, { base: baseOf(name, chain, policy), number: BigInt(chains.size) * CHAIN_STEP, rules: [] });
    } else if (line.startsWith("-A ")) {
      const [, chain = "", ...rule] = words(line);
      rules.push([chain, rule]);
    } else if (line.trim() === "COMMIT") {
      tables.push(tableOf(family, name, chains, rules));
    }
  }
  return tables;
}

/** Returns the position of a rule in its chain, counted from 1 as iptables does. */
export function ruleNumber(handle: bigint): number {
  return Number(handle % CHAIN_STEP);
}

function tableOf(
  family: "ip" | "ip6",
  name: string,
  chains: ReadonlyMap<string, Chain>,
  rules: readonly (readonly [chain: string, rule: readonly string[]])[],
): ForeignTable {
  for (const [chain, rule] of rules) {
    const of = chains.get(chain);
    if (of === undefined) continue;
    of.rules.push({
      handle: of.number + BigInt(of.rules.length + 1),
      steps: ruleSteps(rule, family, (target) => chains.has(target)),
    });
  }
  const named = [...chains].map(([chain, { base, rules: own }]): [string, ForeignChain] => [
    chain,
    { name: chain, base, rules: own },
  ]);
  return { family, name, isLegacy: true, chains: new Map(named), sets: new Map() };
}

/** A chain without a policy is user-defined. */
function baseOf(table: string, chain: string, policy: string): ForeignChain["base"] {
  const hook = HOOKS[chain];
  if (hook === undefined || policy === "-") return undefined;
  const nat = hook === "postrouting" || hook === "input" ? SOURCE_NAT : DESTINATION_NAT;
  return { hook, priority: PRIORITIES[table] ?? nat, policy: policy === "DROP" ? "drop" : "accept", devices: [] };
}
