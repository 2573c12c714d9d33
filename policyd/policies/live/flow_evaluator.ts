import type { Address } from "../../../kernel/ip/address.ts";
import { isLoopback } from "../../../kernel/ip/special.ts";
import { groupHasNode, groupHasPod } from "../compile/peer_groups.ts";
import { type FlowView, type PeerView, type PolicedFlow, evaluateProfile } from "../compile/profile_verdict.ts";
import type { PolicyOptions } from "../compile/options.ts";
import type { Direction, NodeGroup, PodGroup } from "../compile/profile.ts";
import type { MemberIndex } from "./index/member_index.ts";
import type { LivePolicies } from "./live_policies.ts";
import type { LocalPod } from "./pods/local_pods.ts";
import type { Member } from "./sets/member_claims.ts";

/** "not ours": neither end is a pod of this node. */
export type FlowVerdict = "allowed" | "denied" | "not ours";

/** Returns the verdict of the rules on the first packet of a flow, by the current policies. */
export type FlowEvaluator = (flow: PolicedFlow) => FlowVerdict;

/**
 * Returns the verdicts of the rules on flows.
 *
 * @param nodeAddresses the node's own addresses; called once for each flow
 * @param knownNames what pods have asked DNS for
 */
export function flowEvaluator(
  live: Pick<LivePolicies, "members" | "locals">,
  options: PolicyOptions,
  nodeAddresses: () => ReadonlySet<Address>,
  knownNames: FlowView["knownNames"],
): FlowEvaluator {
  const { members, locals } = live;
  const view: FlowView<Member | undefined> = {
    ...peerView(members),
    isSamePod: (a, b) => a === b || locals.at(a)?.addresses.includes(b) === true,
    knownNames,
    isOwnNode: (address) => isLoopback(address) || nodeAddresses().has(address),
  };
  const allows = (local: LocalPod, direction: Direction, flow: PolicedFlow): boolean => {
    if (local.wanted === undefined) return false;
    const profile = local.wanted[direction]?.profile;
    return profile === undefined || evaluateProfile(profile, flow, view, options);
  };
  return (flow) => {
    const [source, destination] = [locals.at(flow.source), locals.at(flow.destination)];
    if (source === undefined && destination === undefined) return "not ours";
    const mayLeave = source === undefined || allows(source, "egress", flow);
    // No policy applies to what the node sends to its pods (POL-07).
    const mayEnter =
      destination === undefined ||
      (view.isOwnNode(flow.source) ? destination.wanted !== undefined : allows(destination, "ingress", flow));
    return mayLeave && mayEnter ? "allowed" : "denied";
  };
}

/** Returns the members that the kernel's sets have at addresses. */
export function peerView(members: MemberIndex): PeerView<Member | undefined> {
  return {
    membersAt: (address) => members.membersAt(address),
    isInGroup: (group, member) => isInGroup(members, group, member),
    groupsFollow: (member) => {
      if (member === undefined) return [NOBODY, undefined];
      const { namespace } = member.identity;
      return [member.identity, namespace === undefined ? undefined : members.groups.namespaceLabels(namespace)];
    },
    portNames: (member, protocol, port) => {
      const named = member?.ports.filter((one) => one.protocol === protocol && one.port === port) ?? [];
      return new Set(named.map(({ name }) => name));
    },
  };
}

/** Stands for those that have an address and that no selector selects. */
const NOBODY = {};

function isInGroup(members: MemberIndex, group: PodGroup | NodeGroup, member: Member | undefined): boolean {
  if (member === undefined) return false;
  const { identity } = member;
  if (members.groups.isComplete(group.key)) return identity.groups.has(group.key);
  const { labels, namespace } = identity;
  if (group.type === "nodes") return namespace === undefined && groupHasNode(group, labels);
  if (namespace === undefined) return false;
  return groupHasPod(group, { namespace, labels, namespaceLabels: members.groups.namespaceLabels(namespace) });
}
