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
import { ANY_NAME, eachOf, type ResolvedEnd, type ResolvedFlow, resolveFlow } from "./party.ts";
import type { PolicyIndex } from "./policy_index.ts";
import type { Decision, EndVerdict, Failure, NameMatch, NearMiss, PolicyVerdict, ShadowVerdict } from "./verdict.ts";
import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { IpBlockPeer, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyRule } from "../../model.ts";
import { hasEveryAddress } from "./match.ts";
import { unmet } from "./selector.ts";

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

/** The failures of a part of a rule; without failures it matches. */
interface Miss {
  readonly index: number | undefined;
  readonly failed: readonly Failure[];
}

/**
 * Returns the rule that comes nearest to allowing a flow that none allows: the one with the fewest failures, of equally
 * many the fewest of its peer, then the first. Undefined if no policy has a rule.
 */
function nearestMiss(
  isolating: readonly NetworkPolicy[],
  direction: Direction,
  flow: ResolvedFlow,
  traffic: Traffic,
): NearMiss | undefined {
  let nearest: { readonly miss: NearMiss; readonly ofPeer: number } | undefined;
  for (const policy of isolating) {
    for (const rule of policy[direction]) {
      const peer = nearestPeer(rule, policy.namespace, direction === "egress" ? flow.destination : flow.source);
      const port = nearestPort(rule, { traffic, destination: flow.destination });
      const failed = [...peer.failed, ...port.failed];
      const ofPeer = peer.failed.length;
      const difference = nearest === undefined ? -1 : failed.length - nearest.miss.failed.length;
      if (difference > 0 || (difference === 0 && ofPeer >= (nearest?.ofPeer ?? 0))) continue;
      nearest = {
        miss: { policy: policy.key, rule: rule.index, peer: peer.index, port: port.index, failed },
        ofPeer,
      };
    }
  }
  return nearest?.miss;
}

function nearestPeer({ peers }: PolicyRule, namespace: string, other: ResolvedEnd): Miss {
  if (peers === undefined) return { index: undefined, failed: [] };
  const misses = peers.map((peer) => ({ index: peer.index, failed: peerFailures(peer, namespace, other) }));
  return fewest(misses, { type: "no valid peer" });
}

function nearestPort({ ports }: PolicyRule, context: PortContext): Miss {
  if (ports === undefined) return { index: undefined, failed: [] };
  const misses = ports.map((port) => ({ index: port.index, failed: portFailures(port, context) }));
  return fewest(misses, { type: "no valid port" });
}

function fewest(misses: readonly Miss[], none: Failure): Miss {
  let best: Miss | undefined;
  for (const miss of misses) if (best === undefined || miss.failed.length < best.failed.length) best = miss;
  return best ?? { index: undefined, failed: [none] };
}

function peerFailures(peer: PolicyPeer, namespace: string, other: ResolvedEnd): readonly Failure[] {
  if (peer.type === "names") return [{ type: "names", names: peer.names }];
  if (peer.type !== "pods") return addressFailures(peer, other);
  for (const one of eachOf(other)) {
    const failed = podFailures(peer, namespace, one);
    if (failed.length > 0) return one.pod === other.pod ? failed : [sharedAddress(one), ...failed];
  }
  return [];
}

function sharedAddress({ party }: ResolvedEnd): Failure {
  const name = party.type === "pod" ? party.key : party.type === "node" ? (party.name ?? "") : "";
  return { type: "shared address", name };
}

function addressFailures({ cidr, except }: IpBlockPeer, { address, family }: ResolvedEnd): readonly Failure[] {
  if (address === undefined) {
    return hasEveryAddress({ ranges: [{ cidr }], except }, family) ? [] : [{ type: "no address" }];
  }
  if (!cidrContains(cidr, address)) return [{ type: "outside cidr", cidr }];
  const excepted = except.find((one) => cidrContains(one, address));
  return excepted === undefined ? [] : [{ type: "except", except: excepted }];
}

function podFailures(
  { podSelector, namespaceSelector }: PodPeer,
  namespace: string,
  { pod, subject }: ResolvedEnd,
): readonly Failure[] {
  if (pod === undefined || subject === undefined) return [{ type: "no pod" }];
  const failed: Failure[] = [];
  if (namespaceSelector !== undefined) {
    for (const requirement of unmet(namespaceSelector, subject.identity.namespaceLabels)) {
      failed.push({ type: "namespace labels", requirement });
    }
  } else if (pod.namespace !== namespace) failed.push({ type: "namespace", expected: namespace });
  if (podSelector !== undefined) {
    for (const requirement of unmet(podSelector, pod.labels)) failed.push({ type: "pod labels", requirement });
  }
  return failed;
}

interface PortContext {
  readonly traffic: Traffic;
  readonly destination: ResolvedEnd;
}

function portFailures(
  { protocol, port, endPort }: PolicyPort,
  { traffic, destination }: PortContext,
): readonly Failure[] {
  if (traffic.port === undefined) return [{ type: "ICMP has no ports" }];
  const failed: Failure[] = protocol === traffic.protocol ? [] : [{ type: "protocol", expected: protocol }];
  if (typeof port === "number") {
    const to = endPort ?? port;
    if (traffic.port < port || traffic.port > to) failed.push({ type: "port", from: port, to });
  }
  if (typeof port === "string") {
    const named = (destination.pod?.ports ?? []).filter((one) => one.name === port && one.protocol === protocol);
    const found = named.map((one) => one.port);
    if (destination.pod === undefined) failed.push({ type: "named port of no pod", name: port });
    else if (!found.includes(traffic.port)) failed.push({ type: "named port", name: port, found });
  }
  return failed;
}
