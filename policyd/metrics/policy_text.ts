import { escaped, headOf, type TextMetric } from "./endpoint_text.ts";
import type { PolicyRuleSeries, PolicySums } from "./policy_sums.ts";

export const POLICY_RULES: TextMetric = {
  name: "drawbridge_policy_rule_packets_total",
  help: "Packets that fit a policy's rule, by its place in the policy's list: of each connection the first, and of others all.",
  labels: ["policy", "direction", "rule"],
};
export const POLICY_DROPS: TextMetric = {
  name: "drawbridge_policy_dropped_packets_total",
  help: "Packets of pods that policies dropped: isolated and allowed by no rule, or denied by a rule.",
  labels: ["direction", "reason"],
};
const [RULES, DROPS] = [POLICY_RULES.name, POLICY_DROPS.name];
/** Number of lines in one piece. */
const LINES = 500;

/** Yields the counts of policy rules in Prometheus' text format 0.0.4, piece by piece. */
export function* policyText(sums: Pick<PolicySums, "rules" | "drops">): Generator<string, void, void> {
  let text = headOf(POLICY_DROPS);
  for (const { direction, reason, packets } of sums.drops()) {
    text += `${DROPS}{direction="${direction}",reason="${reason}"} ${packets}\n`;
  }
  text += headOf(POLICY_RULES);
  let lines = 0;
  for (const series of sums.rules()) {
    text += lineOf(series);
    if (++lines % LINES !== 0) continue;
    yield text;
    text = "";
  }
  if (text !== "") yield text;
}

function lineOf({ policy, direction, rule, packets }: PolicyRuleSeries): string {
  return `${RULES}{policy="${escaped(policy)}",direction="${direction}",rule="${rule}"} ${packets}\n`;
}
