import type { CountedTableRule } from "../../kernel/nftables/rule_counters.ts";
import { originComment } from "../policy/compile/plain_rules.ts";
import type { Direction, RuleOrigin } from "../policy/compile/profile.ts";

/** What a counter of a profile's chain counts. */
export type CounterMeaning =
  /** Packets that fit a policy's rule, in whatever profile. */
  | { readonly type: "rule"; readonly direction: Direction; readonly rule: PolicyRuleLabels; readonly isDrop: boolean }
  /** Packets that nothing allowed (`isolated`), or that one would not have allowed (`would drop`). */
  | { readonly type: "isolated" | "would drop"; readonly direction: Direction }
  /** Packets that rules allowed which were put together: which of them, nobody counts. */
  | { readonly type: "several rules"; readonly direction: Direction };

export interface PolicyRuleLabels {
  /** The policy's key as the rule's comment has it: cut where it is longer than that may be. */
  readonly policy: string;
  /** Its place in the policy's list of the direction, from 0. */
  readonly rule: number;
}

const CHAIN = /^(egress|ingress)_[0-9a-f]{16,32}(?:_[0-9a-z_]+)?$/;
const RULE = /^(?:NetworkPolicy|ClusterNetworkPolicy) rule (\d{1,9}) of (.+)$/;
/** Comments of rules that allow what several policies' rules say: policyd/policy/compile/flattened_rules.ts. */
const SEVERAL = /^(?:everyone|peers|ranges) at /;
const ISOLATED = "isolated by ";
const WOULD_ISOLATE = "would be isolated by ";

/** Reads what policyd/policy/compile has written into the names and comments of profiles; undefined for what no metric tells. */
export function meaningOf({
  chain,
  comment,
  verdict,
}: Pick<CountedTableRule, "chain" | "comment" | "verdict">): CounterMeaning | undefined {
  const direction = directionOf(chain);
  if (direction === undefined) return undefined;
  if (comment.startsWith(ISOLATED)) return { type: "isolated", direction };
  if (comment.startsWith(WOULD_ISOLATE)) return { type: "would drop", direction };
  if (SEVERAL.test(comment)) return { type: "several rules", direction };
  const rule = ruleIn(comment);
  if (rule === undefined) return undefined;
  const isDrop = verdict?.kind === "drop" || (verdict?.kind === "goto" && verdict.chain.endsWith("_drop"));
  return { type: "rule", direction, rule, isDrop };
}

/** What a rule is called by its comment: one that is put together with others is called the same. */
export function labelsOf(origin: RuleOrigin): PolicyRuleLabels {
  return ruleIn(originComment(origin)) ?? { policy: origin.policy, rule: origin.index };
}

function ruleIn(comment: string): PolicyRuleLabels | undefined {
  const [, index, policy] = RULE.exec(comment) ?? [];
  return policy === undefined ? undefined : { policy, rule: Number(index) };
}

/** The same text for all chains of one profile. */
export function profileOf(chain: string): string {
  return chain.split("_", 2).join("_");
}

/** The direction of a profile's chain; undefined for any other chain. */
export function directionOf(chain: string): Direction | undefined {
  const direction = CHAIN.exec(chain)?.[1];
  return direction === "egress" || direction === "ingress" ? direction : undefined;
}
