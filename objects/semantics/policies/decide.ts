import { DNS_PORT } from "../../domain_name.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Direction, Traffic } from "./flow.ts";
import type { IndexedClusterPolicy, IndexedNetworkPolicy } from "./indexed_policy.ts";
import { matchRule } from "./match.ts";
import type { PolicyOptions } from "./objects.ts";
import { eachOf, type ResolvedEnd, type ResolvedFlow } from "./party.ts";
import type { DirectionProfile } from "./profile.ts";
import type { ClusterRuleMatch, Decision, Exemption } from "./verdict.ts";

/** A flow with known ends, and everything else about it and the configuration that decides. */
export interface Question {
  readonly flow: ResolvedFlow;
  readonly traffic: Traffic;
  readonly isThroughService: boolean;
  readonly options: PolicyOptions;
}

export interface Decided {
  readonly decision: Decision;
  /** The Pass rules that were met on the way to it. */
  readonly passed: readonly ClusterRuleMatch[];
}

const NO_POLICIES: DirectionProfile = Object.freeze({ admin: [], isolating: [], shadow: [], baseline: [] });
const DEFAULT: Decision = Object.freeze({ type: "default" });
const ISOLATED = Object.freeze({ type: "isolated" });

/**
 * Returns the decision of the policies of one end on a flow: of the Admin tier, then of NetworkPolicies, which decide
 * finally for the pods they isolate in this direction, then of the Baseline tier. By default a flow is allowed.
 */
export function decide(direction: Direction, question: Question): Decided {
  const exemption = exemptionFromAll(direction, question);
  if (exemption !== undefined) return { decision: exempt(exemption), passed: [] };
  const { admin, isolating, baseline } = profileOf(endOf(question.flow, direction), direction);
  const passed: ClusterRuleMatch[] = [];
  const decided =
    askClusterTier(admin, direction, question, passed) ??
    askNetworkPolicies(isolating, direction, question) ??
    askClusterTier(baseline, direction, question, passed);
  return { decision: decided ?? DEFAULT, passed };
}

/** Returns whether a decision allows the flow. */
export function allows(decision: Decision): boolean {
  if (decision.type === "cluster rule") return decision.rule.action === "Accept";
  return decision.type !== "isolated";
}

/** Returns the end whose policies apply in a direction. */
export function endOf({ source, destination }: ResolvedFlow, direction: Direction): ResolvedEnd {
  return direction === "egress" ? source : destination;
}

/** Returns the questions for each of the pods that have the address of the end whose policies apply (POL-95). */
export function eachQuestion(direction: Direction, question: Question): readonly Question[] {
  const end = direction === "egress" ? "source" : "destination";
  if (question.flow[end].others.length === 0 || isItself(question.flow)) return [question];
  return eachOf(question.flow[end]).map((one) => ({ ...question, flow: { ...question.flow, [end]: one } }));
}

/** Returns the policies that apply to an end; none for an end that no policy can select. */
export function profileOf({ subject }: ResolvedEnd, direction: Direction): DirectionProfile {
  return subject?.profile[direction] ?? NO_POLICIES;
}

/** Returns why no policy of any tier applies to a flow; undefined if policies apply. */
export function exemptionFromAll(
  direction: Direction,
  { flow, traffic, isThroughService }: Question,
): Exemption | undefined {
  const end = endOf(flow, direction);
  if (end.subject === undefined) return "no pod";
  if (traffic.protocol === "ICMP error") return "ICMP error";
  if (isItself(flow) && !isThroughService) return "itself";
  return direction === "ingress" && isOwnNode(end, flow.source) ? "own node" : undefined;
}

/** Returns why NetworkPolicies allow a flow without a rule; undefined if they need one. */
export function exemptionFromIsolation(
  direction: Direction,
  { flow, traffic, options }: Question,
): Exemption | undefined {
  if (isItself(flow)) return "itself";
  if (direction === "ingress") return undefined;
  if (isNodeLocalDNS(options, flow.destination.address) && isDns(traffic)) return "node-local DNS";
  return isOwnNode(flow.source, flow.destination) && !options.policePodToOwnNode ? "own node" : undefined;
}

/** Returns whether a node's own DNS cache listens at an address. */
export function isNodeLocalDNS({ nodeLocalDNS }: PolicyOptions, address: Address | undefined): boolean {
  return address !== undefined && nodeLocalDNS.includes(address);
}

function isDns({ protocol, port }: Traffic): boolean {
  return port === DNS_PORT && protocol !== "SCTP";
}

function isItself({ source, destination }: ResolvedFlow): boolean {
  return source.pod !== undefined && source.pod === destination.pod;
}

function isOwnNode({ pod }: ResolvedEnd, { party }: ResolvedEnd): boolean {
  return party.type === "node" && party.name !== undefined && party.name === pod?.nodeName;
}

/** Evaluates NetworkPolicies. They add up, so their order only decides which rule is named (POL-04). */
function askNetworkPolicies(
  isolating: readonly IndexedNetworkPolicy[],
  direction: Direction,
  question: Question,
): Decision | undefined {
  if (isolating.length === 0) return undefined;
  const exemption = exemptionFromIsolation(direction, question);
  return exemption === undefined ? askRules(isolating, direction, question) : exempt(exemption);
}

/** Returns the joint decision of the rules of isolating policies. */
export function askRules(
  isolating: readonly IndexedNetworkPolicy[],
  direction: Direction,
  question: Question,
): Extract<Decision, { readonly type: "rule" | "isolated" }> {
  for (const { policy, rules } of isolating) {
    for (const rule of rules[direction]) {
      const match = matchRule(rule, direction, question.flow, question.traffic);
      if (match !== undefined) return { type: "rule", rule: { policy: policy.key, rule: rule.index, ...match } };
    }
  }
  return ISOLATED;
}

/** Returns the decision of a tier; undefined if no rule matches or the first match is a Pass, which joins `passed`. */
function askClusterTier(
  policies: readonly IndexedClusterPolicy[],
  direction: Direction,
  { flow, traffic }: Question,
  passed: ClusterRuleMatch[],
): Decision | undefined {
  for (const [position, indexed] of policies.entries()) {
    const match = matchClusterPolicy(indexed, direction, flow, traffic);
    if (match === undefined) continue;
    const tiedWith = policies
      .slice(position + 1)
      .filter(({ policy }) => policy.priority === indexed.policy.priority)
      .filter((other) => (matchClusterPolicy(other, direction, flow, traffic)?.action ?? match.action) !== match.action)
      .map(({ policy }) => policy.key);
    const rule: ClusterRuleMatch = { ...match, tiedWith };
    if (rule.action !== "Pass") return { type: "cluster rule", rule };
    passed.push(rule);
    return undefined;
  }
  return undefined;
}

function matchClusterPolicy(
  { policy, rules }: IndexedClusterPolicy,
  direction: Direction,
  flow: ResolvedFlow,
  traffic: Traffic,
): Omit<ClusterRuleMatch, "tiedWith"> | undefined {
  for (const indexed of rules[direction]) {
    const match = matchRule(indexed, direction, flow, traffic);
    if (match === undefined) continue;
    const { action, name, unreadable } = indexed.rule;
    const { key, tier, priority } = policy;
    return { policy: key, tier, priority, rule: indexed.index, ...match, action, name, unreadable };
  }
  return undefined;
}

function exempt(because: Exemption): Decision {
  return { type: "exempt", because };
}
