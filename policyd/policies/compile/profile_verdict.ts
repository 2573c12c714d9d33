import type { Address } from "../../../kernel/ip/address.ts";
import { isInRanges } from "../../../kernel/ip/ranges.ts";
import type { Protocol } from "../../../objects/model.ts";
import { DNS_PORT, type PolicyOptions } from "./options.ts";
import type { Direction, NodeGroup, PeerGroup, PodGroup, PortGroup, Profile, ProfileRule } from "./profile.ts";

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
export interface FlowView<T = unknown> {
  /** The pods or nodes that have an address; none outside the cluster. */
  readonly membersAt: (address: Address) => readonly T[];
  /** Whether a pod or node is one of the group's. */
  readonly isInGroup: (group: PodGroup | NodeGroup, member: T) => boolean;
  /** Whether a pod gives the port this name; never true for a node. */
  readonly hasPortName: (member: T, name: string, protocol: Protocol, port: number) => boolean;
  /** Whether both are addresses of one local pod. */
  readonly isSamePod: (a: Address, b: Address) => boolean;
  /** Whether a local pod has asked for one of the names and got this address. */
  readonly isKnownBy: (names: readonly string[], pod: Address, remote: Address) => boolean;
  /** Whether the address is one of this node's own. */
  readonly isOwnNode: (address: Address) => boolean;
}

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
  const isMet = (rule: ProfileRule): boolean => fits(rule, direction, flow, view);
  const decided = admin.find(isMet)?.action;
  if (decided === "allow" || decided === "deny") return decided === "allow";
  if (isolation === undefined) return baseline.find(isMet)?.action !== "deny";
  return isExempt(direction, flow, view, options) || isolation.rules.some(isMet);
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

function fits<T>(rule: ProfileRule, direction: Direction, flow: PolicedFlow, view: FlowView<T>): boolean {
  const other = direction === "egress" ? flow.destination : flow.source;
  const peers = view.membersAt(other);
  const receivers = direction === "egress" ? peers : view.membersAt(flow.destination);
  if (rule.action !== "deny" || peers.length <= 1) return fitsAll(rule, flow, { other, peers, receivers }, view);
  // A rule that denies matches if it does for one of those that have the address (POL-95).
  return peers.some((one) => {
    return fitsAll(rule, flow, { other, peers: [one], receivers: direction === "egress" ? [one] : receivers }, view);
  });
}

function fitsAll<T>(
  { peers, ports }: ProfileRule,
  flow: PolicedFlow,
  ends: { readonly other: Address; readonly peers: readonly T[]; readonly receivers: readonly T[] },
  view: FlowView<T>,
): boolean {
  const isPeer = (peer: PeerGroup): boolean => {
    if (peer.type === "ranges") return isInRanges(peer.ranges, ends.other);
    if (peer.type === "names") return view.isKnownBy(peer.names, flow.source, flow.destination);
    return isEach(ends.peers, (one) => view.isInGroup(peer, one));
  };
  return (peers === undefined || peers.some(isPeer)) && fitsPorts(ports, flow, ends.receivers, view);
}

function fitsPorts<T>(
  ports: readonly PortGroup[] | undefined,
  { protocol, port }: PolicedFlow,
  receivers: readonly T[],
  view: FlowView<T>,
): boolean {
  if (ports === undefined) return true;
  if (protocol === undefined) return false;
  return ports.some((group) => {
    if (group.protocol !== undefined && group.protocol !== protocol) return false;
    if (group.type === "range") return group.first <= port && port <= group.last;
    return isEach(receivers, (one) => view.hasPortName(one, group.name, protocol, port));
  });
}

function isEach<T>(members: readonly T[], holds: (member: T) => boolean): boolean {
  return members.length > 0 && members.every(holds);
}
