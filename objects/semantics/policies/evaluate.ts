import {
  allows,
  askRules,
  decide,
  eachQuestion,
  endOf,
  exemptionFromIsolation,
  profileOf,
  type Question,
} from "./decide.ts";
import type { Direction, Flow, Traffic } from "./flow.ts";
import { nearestMiss } from "./near_miss.ts";
import { ANY_NAME, type ResolvedEnd, type ResolvedFlow, resolveFlow } from "./party.ts";
import type { PolicyIndex } from "./policy_index.ts";
import type { Decision, EndVerdict, NameMatch, PolicyVerdict, ShadowVerdict } from "./verdict.ts";

/**
 * Computes the verdict of NetworkPolicies and ClusterNetworkPolicies on a new connection, with all reasons. It follows
 * their Kubernetes documentation directly and knows nothing of tables or rules. The answers of a connection share its
 * verdict (POL-08).
 *
 * If several rules allow the flow, the first is named, in the order of the policies' keys.
 *
 * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
 */
export function evaluatePolicy(index: PolicyIndex, flow: Flow): PolicyVerdict {
  const resolved = resolveFlow(index, flow);
  if ("kind" in resolved) return resolved;
  const question = questionOf(index, flow, resolved);
  const egress = evaluateEnd("egress", question);
  const ingress = evaluateEnd("ingress", question);
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
 * Returns whether {@link evaluatePolicy} would allow the flow, faster for many flows; never for an impossible flow.
 *
 * @throws DrawbridgeError ERR_OBJECT for a pod or a node that the index does not have
 */
export function isAllowed(index: PolicyIndex, flow: Flow): boolean {
  const resolved = resolveFlow(index, flow);
  if ("kind" in resolved) return false;
  const question = questionOf(index, flow, resolved);
  return (["egress", "ingress"] as const).every((direction) =>
    eachQuestion(direction, question).every((one) => allows(decide(direction, one).decision)),
  );
}

/** Returns the verdict for the first pod with the end's address that is denied; for the first of all if none is. */
function evaluateEnd(direction: Direction, question: Question): EndVerdict {
  const verdicts = eachQuestion(direction, question).map((one) => evaluateOne(direction, one));
  return verdicts.find((one) => !one.isAllowed) ?? verdicts[0] ?? evaluateOne(direction, question);
}

function evaluateOne(direction: Direction, question: Question): EndVerdict {
  const { flow, traffic } = question;
  const { decision, passed } = decide(direction, question);
  const isAllowedHere = allows(decision);
  const isolating = profileOf(endOf(flow, direction), direction).isolating.map(({ policy }) => policy);
  return Object.freeze({
    isAllowed: isAllowedHere,
    decision,
    passed,
    isolatedBy: isolating.map(({ key }) => key),
    nearest: decision.type === "isolated" ? nearestMiss(isolating, direction, flow, traffic) : undefined,
    byName: isAllowedHere || direction === "ingress" ? undefined : matchByName(question),
    shadow: askShadow(direction, question, decision),
  });
}

/** Returns the rule that allows a flow if the sender knows its destination by a name. */
function matchByName(question: Question): NameMatch | undefined {
  const { flow } = question;
  if (flow.destination.asked !== undefined || flow.destination.party.type !== "outside") return undefined;
  const destination: ResolvedEnd = { ...flow.destination, asked: ANY_NAME };
  const { decision } = decide("egress", { ...question, flow: { ...flow, destination } });
  if (!allows(decision) || !("rule" in decision)) return undefined;
  const { policy, rule, peer } = decision.rule;
  const { admin, isolating } = profileOf(flow.source, "egress");
  const rules = [...admin, ...isolating].filter((one) => one.policy.key === policy).flatMap((one) => one.rules.egress);
  const found = rules.find(({ index }) => index === rule)?.peers?.find(({ index }) => index === peer);
  return found?.type === "names" ? { policy, rule, names: found.names } : undefined;
}

/**
 * Returns the decision of NetworkPolicies on a flow as if those in shadow were in force beside the others. They add up
 * (POL-04): for pods that others isolate, policies in shadow could only allow more, so they would drop nothing there.
 *
 * @param decision the decision without them
 * @returns undefined if they would not be evaluated: they do not apply to the end or flow, or the Admin tier decides
 */
function askShadow(direction: Direction, question: Question, decision: Decision): ShadowVerdict | undefined {
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
