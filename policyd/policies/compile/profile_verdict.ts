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
export interface FlowView {
  /** Whether the address is that of one of the group's pods or nodes. */
  readonly isInGroup: (group: PodGroup | NodeGroup, address: Address) => boolean;
  /** Whether the pod at the address gives the port this name; never true for other addresses. */
  readonly hasPortName: (address: Address, name: string, protocol: Protocol, port: number) => boolean;
  /** Whether both are addresses of one local pod. */
  readonly isSamePod: (a: Address, b: Address) => boolean;
  /** Whether the address is one of this node's own. */
  readonly isOwnNode: (address: Address) => boolean;
}

type EvaluationOptions = Pick<PolicyOptions, "policePodToOwnNode" | "nodeLocalDNS">;

/**
 * Returns whether a profile's chains allow the first packet of a flow in the profile's direction. Used for existing
 * flows, never for ICMP errors, which belong to another flow.
 */
export function evaluateProfile(
  profile: Profile,
  flow: PolicedFlow,
  view: FlowView,
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
  view: FlowView,
  { policePodToOwnNode, nodeLocalDNS }: EvaluationOptions,
): boolean {
  if (view.isSamePod(source, destination)) return true;
  if (direction === "ingress") return false;
  if (!policePodToOwnNode && view.isOwnNode(destination)) return true;
  return (protocol === "TCP" || protocol === "UDP") && port === DNS_PORT && nodeLocalDNS.includes(destination);
}

function fits({ peers, ports }: ProfileRule, direction: Direction, flow: PolicedFlow, view: FlowView): boolean {
  const other = direction === "egress" ? flow.destination : flow.source;
  return (peers === undefined || peers.some((peer) => isPeer(peer, other, view))) && fitsPorts(ports, flow, view);
}

function isPeer(peer: PeerGroup, address: Address, view: FlowView): boolean {
  return peer.type === "ranges" ? isInRanges(peer.ranges, address) : view.isInGroup(peer, address);
}

function fitsPorts(
  ports: readonly PortGroup[] | undefined,
  { destination, protocol, port }: PolicedFlow,
  view: FlowView,
): boolean {
  if (ports === undefined) return true;
  if (protocol === undefined) return false;
  return ports.some((group) => {
    if (group.protocol !== undefined && group.protocol !== protocol) return false;
    if (group.type === "range") return group.first <= port && port <= group.last;
    return view.hasPortName(destination, group.name, protocol, port);
  });
}
