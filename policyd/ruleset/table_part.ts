import { BRIDGE_TABLE, INET_TABLE } from "../../attachment/our_tables.ts";
import type { Chain, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { accept, anyFlag, type Rule, rule } from "../../kernel/nftables/model/statement.ts";

export { BRIDGE_TABLE, INET_TABLE };

/**
 * The base chains of the inet table that its parts share. Each base chain costs every packet of its hook as much as two
 * rules, so each place where something is decided has one chain, not one for each subject.
 */
const SHARED_CHAINS = {
  // Before nf_defrag, at -400.
  before_reassembly: { type: "filter", hook: "prerouting", priority: -450, policy: "accept" },
  nat_prerouting: { type: "nat", hook: "prerouting", priority: -100, policy: "accept" },
  after_nat_prerouting: { type: "filter", hook: "prerouting", priority: -90, policy: "accept" },
  filter_input: { type: "filter", hook: "input", priority: -10, policy: "accept" },
  filter_forward: { type: "filter", hook: "forward", priority: -10, policy: "accept" },
  nat_output: { type: "nat", hook: "output", priority: -100, policy: "accept" },
  filter_output: { type: "filter", hook: "output", priority: -10, policy: "accept" },
  nat_postrouting: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
  after_nat_postrouting: { type: "filter", hook: "postrouting", priority: 110, policy: "accept" },
} as const satisfies Readonly<Record<string, NonNullable<Chain["base"]>>>;

/** Rules of one part, by shared chain. */
export type SharedRules = Readonly<Partial<Record<keyof typeof SHARED_CHAINS, readonly Rule[]>>>;

/** The sets, chains and rules that one subject contributes to a table. */
export interface TablePart {
  readonly sets: readonly SetDefinition[];
  readonly chains: readonly Chain[];
  /** For all packets. */
  readonly shared?: SharedRules;
  /** For packets that belong to no established flow, after all of {@link shared}. */
  readonly sharedForNew?: SharedRules;
}

/**
 * Ends a chain for packets of established flows. Others continue: untracked and invalid packets belong to no flow, and
 * the first packet of a flow that another one announced (an expectation of a conntrack helper) is related, not new.
 */
const leaveWhenEstablished: Rule = rule(anyFlag("ct state", "established"), accept);

/** Returns the sets and chains of a table composed of parts, with the shared chains that any part has rules for. */
export function joined(parts: readonly TablePart[]): Pick<Table, "sets" | "chains"> {
  return {
    sets: parts.flatMap(({ sets }) => sets),
    chains: [...parts.flatMap(({ chains }) => chains), ...sharedChains(parts)],
  };
}

/** Returns the shared chains that have rules, in the order of the parts. */
function sharedChains(parts: readonly TablePart[]): readonly Chain[] {
  return Object.entries(SHARED_CHAINS).flatMap(([name, base]): readonly Chain[] => {
    const of = (rules: SharedRules | undefined): readonly Rule[] =>
      Object.entries(rules ?? {}).flatMap(([chain, own]) => (chain === name ? own : []));
    const all = parts.flatMap(({ shared }) => of(shared));
    const ofNew = parts.flatMap(({ sharedForNew }) => of(sharedForNew));
    const rules = [...all, ...(ofNew.length > 0 ? [leaveWhenEstablished, ...ofNew] : [])];
    return rules.length > 0 ? [{ name, base, rules }] : [];
  });
}
