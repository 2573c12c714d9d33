import { escaped } from "./endpoint_text.ts";
import type { PolicyRuleSeries, PolicySums } from "./policy_sums.ts";

const RULES = "drawbridge_policy_rule_packets_total";
const DROPS = "drawbridge_policy_dropped_packets_total";
/** So many lines are one piece. */
const LINES = 500;

/** What policies' rules have counted, in Prometheus' text format 0.0.4, piece by piece. */
export function* policyText(sums: Pick<PolicySums, "rules" | "drops">): Generator<string, void, void> {
  let text = head(
    DROPS,
    "Packets of pods that policies dropped: isolated and allowed by no rule, or denied by a rule.",
  );
  for (const { direction, reason, packets } of sums.drops()) {
    text += `${DROPS}{direction="${direction}",reason="${reason}"} ${packets}\n`;
  }
  text += head(RULES, "Packets that fit a policy's rule: of each connection the first, and of others all.");
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

function head(name: string, help: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} counter\n`;
}
