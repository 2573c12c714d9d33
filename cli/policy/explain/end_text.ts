import { printable } from "../../../objects/printable.ts";
import { locationText } from "../../input/place.ts";
import type { Style } from "../../style.ts";
import type {
  DecisionReport,
  EndReport,
  NearestReport,
  PolicyReport,
  RuleReport,
  ShadowReport,
} from "./explanation.ts";

const EXEMPTIONS: Readonly<Record<Extract<DecisionReport, { readonly type: "exempt" }>["because"], string>> = {
  "no pod": "policies are for pods with addresses of their own",
  "own node": "a pod and the node it runs on are never kept apart",
  itself: "a pod is never kept from itself",
  "node-local DNS": "NetworkPolicies keep no pod from the node's own DNS",
  "ICMP error": "errors belong to the flow they are about",
};

/** Returns the verdict of one end's policies, a line for each reason and the answer first. */
export function endLines(end: EndReport, style: Style): readonly string[] {
  const answer = end.allowed ? style.good("allowed") : style.bad("denied");
  const about = end.judgedAs === null ? "" : ` (${printable(end.judgedAs)})`;
  // Policies that are not evaluated do not isolate.
  const isolating = end.decision.type === "exempt" ? [] : end.isolatedBy;
  return [
    `${answer}${about} ${decisionText(end.decision, style)}`,
    ...end.passed.map((rule) => `passed on by ${ruleText(rule, style)}`),
    ...(isolating.length === 0 ? [] : [`isolated by ${isolating.map((one) => policyText(one, style)).join(", ")}`]),
    ...(end.nearest === null ? [] : [nearestText(end.nearest, style)]),
    ...(end.shadow === null ? [] : shadowLines(end, end.shadow, style)),
  ];
}

/** Returns what the policies in shadow would change; empty where the answer stays the same. */
function shadowLines({ allowed }: EndReport, shadow: ShadowReport, style: Style): readonly string[] {
  const { wouldDrop, policies, rule, nearest } = shadow;
  if (wouldDrop) {
    const names = policies.map((one) => policyText(one, style)).join(", ");
    return [`shadow: would be denied by ${names}`, ...(nearest === null ? [] : [nearestText(nearest, style)])];
  }
  return allowed || rule === null ? [] : [`shadow: would be allowed by ${ruleText(rule, style)}`];
}

function decisionText(decision: DecisionReport, style: Style): string {
  switch (decision.type) {
    case "rule":
      return `by ${ruleText(decision.rule, style)}`;
    case "exempt":
      return `always: ${EXEMPTIONS[decision.because]}`;
    case "isolated":
      return "as no rule allows it";
    case "default":
      return "as no policy has a say";
  }
}

function ruleText(rule: RuleReport, style: Style): string {
  const { action, tier, priority, name, unreadable, tiedWith } = rule;
  const cluster = action === undefined ? "" : `${action} of `;
  const called = name === undefined ? "" : ` ${printable(JSON.stringify(name))}`;
  const rank = tier === undefined ? "" : `, ${tier} tier, priority ${priority}`;
  const closed = unreadable === undefined ? "" : `; it fails closed: ${printable(unreadable)}`;
  const tied = tiedWith === undefined ? "" : `; undefined, since ${tiedWith.join(", ")} of the same priority differ`;
  return `${cluster}${rule.policy} ${rule.path}${called}${rank}${placeText(rule, style)}${closed}${tied}`;
}

function policyText(policy: PolicyReport, style: Style): string {
  return `${policy.policy.replace(/^NetworkPolicy /, "")}${placeText(policy, style)}`;
}

function nearestText(nearest: NearestReport, style: Style): string {
  const failed = nearest.failed.map(({ text }) => printable(text)).join("; ");
  return `nearest: ${nearest.policy} ${nearest.path}${placeText(nearest, style)}, but ${failed}`;
}

function placeText({ file, line }: PolicyReport, style: Style): string {
  if (file === undefined) return "";
  return ` ${style.faint(`(${printable(locationText(file, line))})`)}`;
}
