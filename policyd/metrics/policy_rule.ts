import type { CountedRule } from "../../kernel/nftables/decode/counters.ts";
import { originComment } from "../policies/compile/plain_rules.ts";
import type { Direction, RuleOrigin } from "../policies/compile/profile.ts";

/** The meaning of a counter in a profile's chain. */
export type CounterMeaning =
  /** Packets that match a policy's rule, in any profile. */
  | { readonly type: "rule"; readonly direction: Direction; readonly rule: PolicyRuleLabels; readonly isDrop: boolean }
  /** Packets that no rule allowed (`isolated`), or that a shadow policy would not have allowed (`would drop`). */
  | { readonly type: "isolated" | "would drop"; readonly direction: Direction }
  /** Packets allowed by merged rules: their counter does not show which single rule applied. */
  | { readonly type: "several rules"; readonly direction: Direction };

export interface PolicyRuleLabels {
  /** The policy's key as in the rule's comment, truncated to the length that comments may have. */
  readonly policy: string;
  /** Position in the policy's list for the direction, from 0. */
  readonly rule: number;
}

const CHAIN = /^(egress|ingress)_[0-9a-f]{16,32}(?:_[0-9a-z_]+)?$/;
const RULE = /^(?:NetworkPolicy|ClusterNetworkPolicy) rule (\d{1,9}) of (.+)$/;
/** Comments of merged rules, which allow what several rules say: policyd/policies/compile/flattened_rules.ts. */
const SEVERAL = /^(?:everyone|peers|ranges) at /;
const ISOLATED = "isolated by ";
const WOULD_ISOLATE = "would be isolated by ";

/** Parses the names and comments that policyd/policies/compile writes; undefined for rules without a metric. */
export function meaningOf({
  chain,
  comment,
  verdict,
}: Pick<CountedRule, "chain" | "comment" | "verdict">): CounterMeaning | undefined {
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

/** Returns the labels of a rule by its comment; a merged rule gets the same labels as a separate one. */
export function labelsOf(origin: RuleOrigin): PolicyRuleLabels {
  return ruleIn(originComment(origin)) ?? { policy: origin.policy, rule: origin.index };
}

function ruleIn(comment: string): PolicyRuleLabels | undefined {
  const [, index, policy] = RULE.exec(comment) ?? [];
  return policy === undefined ? undefined : { policy, rule: Number(index) };
}

/** Returns the name of a chain's profile, which all chains of the profile share. */
export function profileOf(chain: string): string {
  return chain.split("_", 2).join("_");
}

/** Returns the direction of a profile's chain; undefined for any other chain. */
export function directionOf(chain: string): Direction | undefined {
  const direction = CHAIN.exec(chain)?.[1];
  return direction === "egress" || direction === "ingress" ? direction : undefined;
}
