import type { Question } from "./decide.ts";
import { askRules, endOf, exemptionFromIsolation, profileOf } from "./decide.ts";
import type { Direction } from "./flow.ts";
import { nearestMiss } from "./near_miss.ts";
import type { Decision, ShadowVerdict } from "./verdict.ts";

/**
 * What NetworkPolicies would say of a flow if those in shadow were in force beside the others. They add up (POL-04): to
 * pods that others isolate those in shadow could only allow more, so they would drop nothing there.
 *
 * @param decision what is decided without them
 * @returns undefined where they would not be asked: none selects the end, policies do not concern the flow, or the Admin
 *   tier decides it
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

/** Whether the flow came as far as NetworkPolicies, or would have. */
function reachesNetworkPolicies(decision: Decision): boolean {
  if (decision.type === "exempt") return false;
  return decision.type !== "cluster rule" || decision.rule.tier === "Baseline";
}
