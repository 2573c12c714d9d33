import type { Address } from "../../../kernel/ip/address.ts";
import { isInRanges } from "../../../kernel/ip/ranges.ts";
import { DNS_PORT, matchesOne } from "../../../objects/domain_name.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { PolicyOptions } from "./options.ts";
import type { Direction, PeerGroup, PortGroup, Profile, ProfileRule } from "./profile.ts";
import { type MemberView, ruleIndexOf } from "./rule_index.ts";

/** A flow as policies see it: to the endpoint of a Service, from the source before masquerading. */
export interface PolicedFlow {
  readonly source: Address;
  readonly destination: Address;
  /** Undefined for traffic whose ports policies do not know, such as ICMP. */
  readonly protocol: Protocol | undefined;
  /** The destination's port; unused without a protocol. */
  readonly port: number;
}

/** The pods and nodes at addresses, as in the kernel's sets. */
export interface FlowView<T = unknown> extends MemberView<T> {
  /** The pods or nodes that have an address; none outside the cluster. */
  readonly membersAt: (address: Address) => readonly T[];
  /** The names that a pod gives a port; none for a node. */
  readonly portNames: (member: T, protocol: Protocol, port: number) => ReadonlySet<string>;
  /** Whether both are addresses of one local pod. */
  readonly isSamePod: (a: Address, b: Address) => boolean;
  /** The domain names for which a local pod has asked and got this address. */
  readonly knownNames: (pod: Address, remote: Address) => readonly string[];
  /** Whether the address is one of this node's own. */
  readonly isOwnNode: (address: Address) => boolean;
}

/** The members of groups and their ports, by addresses: all that the rules of NetworkPolicies need without names. */
export type PeerView<T> = Pick<FlowView<T>, "membersAt" | "isInGroup" | "groupsFollow" | "portNames">;

type EvaluationOptions = Pick<PolicyOptions, "policePodToOwnNode" | "nodeLocalDNS">;

/**
 * Returns whether a profile's chains allow the first packet of a flow in the profile's direction. Used for existing
 * flows, never for ICMP errors, which belong to another flow.
 */
export function evaluateProfile<T>(
  profile: Profile,
  flow: PolicedFlow,
  view: FlowView<T>,
  options: EvaluationOptions,
): boolean {
  const { direction, admin, isolation, baseline } = profile;
  const decided = firstMatch(admin, direction, flow, view)?.action;
  if (decided === "allow" || decided === "deny") return decided === "allow";
  if (isolation === undefined) return firstMatch(baseline, direction, flow, view)?.action !== "deny";
  return isExempt(direction, flow, view, options) || firstMatch(isolation.rules, direction, flow, view) !== undefined;
}

/** Returns whether NetworkPolicies always allow a flow. */
function isExempt(
  direction: Direction,
  { source, destination, protocol, port }: PolicedFlow,
  view: Pick<FlowView, "isSamePod" | "isOwnNode">,
  { policePodToOwnNode, nodeLocalDNS }: EvaluationOptions,
): boolean {
  if (view.isSamePod(source, destination)) return true;
  if (direction === "ingress") return false;
  if (!policePodToOwnNode && view.isOwnNode(destination)) return true;
  return (protocol === "TCP" || protocol === "UDP") && port === DNS_PORT && nodeLocalDNS.includes(destination);
}

/** Returns the first of a profile's rules that matches a flow. */
export function firstMatch<T>(
  rules: readonly ProfileRule[],
  direction: Direction,
  flow: PolicedFlow,
  view: PeerView<T> & Pick<FlowView, "knownNames">,
): ProfileRule | undefined {
  if (rules.length === 0) return undefined;
  const other = direction === "egress" ? flow.destination : flow.source;
  const peers = view.membersAt(other);
  const endsOf = (some: readonly T[]): Ends<T> => {
    const receivers = direction === "egress" ? some : view.membersAt(flow.destination);
    return { other, peers: some, portNames: namesOf(receivers, flow, view), knownNames };
  };
  const knownNames = view.knownNames(flow.source, flow.destination);
  const all = endsOf(peers);
  if (peers.length <= 1) {
    const indexed = { ...all, member: peers[0], protocol: flow.protocol, port: flow.port };
    return ruleIndexOf(rules).find(indexed, view, (rule) => fits(rule, flow, all, view));
  }
  const each = peers.map((one) => endsOf([one]));
  // A rule that denies matches if it does for one of those that have the address (POL-95).
  return rules.find((rule) => (rule.action === "deny" ? each : [all]).some((ends) => fits(rule, flow, ends, view)));
}

interface Ends<T> {
  readonly other: Address;
  readonly peers: readonly T[];
  /** The names that all who have the destination give its port. */
  readonly portNames: ReadonlySet<string>;
  readonly knownNames: readonly string[];
}

const NO_NAMES: ReadonlySet<string> = new Set();

function namesOf<T>(
  receivers: readonly T[],
  { protocol, port }: PolicedFlow,
  { portNames }: Pick<FlowView<T>, "portNames">,
): ReadonlySet<string> {
  if (protocol === undefined) return NO_NAMES;
  const [first = NO_NAMES, ...others] = receivers.map((one) => portNames(one, protocol, port));
  return others.length === 0 ? first : new Set([...first].filter((name) => others.every((names) => names.has(name))));
}

function fits<T>(
  { peers, ports }: ProfileRule,
  flow: PolicedFlow,
  ends: Ends<T>,
  view: Pick<FlowView<T>, "isInGroup">,
): boolean {
  const isPeer = (peer: PeerGroup): boolean => {
    if (peer.type === "ranges") return isInRanges(peer.ranges, ends.other);
    if (peer.type === "names") {
      return ends.knownNames.some((name) => matchesOne(peer.names, name));
    }
    return ends.peers.length > 0 && ends.peers.every((one) => view.isInGroup(peer, one));
  };
  return fitsPorts(ports, flow, ends.portNames) && (peers === undefined || peers.some(isPeer));
}

function fitsPorts(
  ports: readonly PortGroup[] | undefined,
  { protocol, port }: PolicedFlow,
  names: ReadonlySet<string>,
): boolean {
  if (ports === undefined) return true;
  if (protocol === undefined) return false;
  return ports.some((group) => {
    if (group.protocol !== undefined && group.protocol !== protocol) return false;
    return group.type === "range" ? group.first <= port && port <= group.last : names.has(group.name);
  });
}
