import { askRules, endOf, exemptionFromIsolation, profileOf, type Question } from "./decide.ts";
import type { Direction } from "./flow.ts";
import { nearestMiss } from "./near_miss.ts";
import type { Decision, ShadowVerdict } from "./verdict.ts";

/**
 * Returns the decision of NetworkPolicies on a flow as if those in shadow were in force beside the others. They add up
 * (POL-04): for pods that others isolate, policies in shadow could only allow more, so they would drop nothing there.
 *
 * @param decision the decision without them
 * @returns undefined if they would not be evaluated: they do not apply to the end or flow, or the Admin tier decides
 */
export function askShadow(direction: Direction, question: Question, decision: Decision): ShadowVerdict | undefined {
  const { flow, traffic } = question;
  const { isolating, shadow } = profileOf(endOf(flow, direction), direction);
  if (shadow.length === 0 || !reachesNetworkPolicies(decision)) return undefined;
  if (exemptionFromIsolation(direction, question) !== undefined) return undefined;
  const own = shadow.map(({ policy }) => policy);
  const would = decision.type === "rule" ? decision : askRules([...isolating, ...shadow], direction, question);
  const wouldDrop = would.type === "isolated" && isolating.length === 0;
  return Object.freeze({
    wouldDrop,
    decision: would,
    policies: own.map(({ key }) => key),
    nearest: wouldDrop ? nearestMiss(own, direction, flow, traffic) : undefined,
  });
}

/** Returns whether NetworkPolicies were evaluated for the flow, or would have been. */
function reachesNetworkPolicies(decision: Decision): boolean {
  if (decision.type === "exempt") return false;
  return decision.type !== "cluster rule" || decision.rule.tier === "Baseline";
}
