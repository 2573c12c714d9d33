import type { Question } from "./decide.ts";
import { allows, decide, endOf, profileOf } from "./decide.ts";
import type { Direction, Flow, Traffic } from "./flow.ts";
import { nearestMiss } from "./near_miss.ts";
import type { ResolvedFlow } from "./party.ts";
import { resolveFlow } from "./party.ts";
import type { PolicyIndex } from "./policy_index.ts";
import { askShadow } from "./shadow.ts";
import type { EndVerdict, PolicyVerdict } from "./verdict.ts";

/**
 * What NetworkPolicies and ClusterNetworkPolicies make of a new connection, with all reasons: the plain reading of what
 * Kubernetes says about them, without any thought of tables or rules. Its answers pass with it (POL-08).
 *
 * In the order of their keys, the first of several rules that allow the flow is named.
 *
 * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
 */
export function evaluatePolicy(index: PolicyIndex, flow: Flow): PolicyVerdict {
  const resolved = resolveFlow(index, flow);
  if ("kind" in resolved) return resolved;
  const question = questionOf(index, flow, resolved);
  const egress = judgeEnd("egress", question);
  const ingress = judgeEnd("ingress", question);
  return Object.freeze({
    kind: egress.isAllowed && ingress.isAllowed ? "allowed" : "denied",
    family: resolved.family,
    source: resolved.source.party,
    destination: resolved.destination.party,
    egress,
    ingress,
  });
}

/**
 * Whether {@link evaluatePolicy} would allow the flow, for asking about many; what cannot be sent is not allowed.
 *
 * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
 */
export function isAllowed(index: PolicyIndex, flow: Flow): boolean {
  const resolved = resolveFlow(index, flow);
  if ("kind" in resolved) return false;
  const question = questionOf(index, flow, resolved);
  return allows(decide("egress", question).decision) && allows(decide("ingress", question).decision);
}

function judgeEnd(direction: Direction, question: Question): EndVerdict {
  const { flow, traffic } = question;
  const { decision, passed } = decide(direction, question);
  const isolating = profileOf(endOf(flow, direction), direction).isolating.map(({ policy }) => policy);
  return Object.freeze({
    isAllowed: allows(decision),
    decision,
    passed,
    isolatedBy: isolating.map(({ key }) => key),
    nearest: decision.type === "isolated" ? nearestMiss(isolating, direction, flow, traffic) : undefined,
    shadow: askShadow(direction, question, decision),
  });
}

function questionOf(index: PolicyIndex, flow: Flow, resolved: ResolvedFlow): Question {
  const traffic: Traffic =
    flow.port === undefined ? { protocol: flow.protocol } : { protocol: flow.protocol, port: flow.port };
  return {
    flow: resolved,
    traffic,
    isThroughService: flow.isThroughService ?? false,
    options: index.options,
  };
}
