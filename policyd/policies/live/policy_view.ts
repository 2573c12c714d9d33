import type { Address } from "../../../kernel/ip/address.ts";
import type { Labels, Pod } from "../../../objects/model.ts";
import { nameGroupsOf } from "../compile/name_rules.ts";
import type { NameGroup, Profile } from "../compile/profile.ts";
import type { PeerView } from "../compile/profile_verdict.ts";
import { peerView } from "./flow_evaluator.ts";
import type { Selection } from "./index/policy_lists.ts";
import type { LivePolicies } from "./live_policies.ts";
import type { Member } from "./sets/member_claims.ts";
import type { AddressHolder } from "../../flows/flow_end_names.ts";

/** The objects that the numbers in the rules stand for. Only the first answer takes longer in a larger cluster. */
export interface PolicyView {
  /** The profile with a key; undefined for one that no pod has. */
  profile(key: string): Profile | undefined;
  /** The holder of an address as the sets have it, the first by name; undefined outside the cluster. */
  holderOf(address: Address): AddressHolder | undefined;
  /** All holders of an address by name: several only where nothing says which of them has it. */
  holdersOf(address: Address): readonly AddressHolder[];
  /** The members that the sets have at addresses. */
  readonly peers: PeerView<Member | undefined>;
  nodeLabels(name: string): Labels;
  namespaceLabels(name: string): Labels;
  /** The pods whose policies in force have domain names. */
  namedPods(): readonly NamedPod[];
  /** The policies that select a pod, including those retained from a namespace that is ending. */
  policiesOf(pod: Pod): Selection;
}

/** A pod of this node whose policies in force have domain names. */
export interface NamedPod {
  readonly container: string;
  /** Undefined for an attachment without a pod. */
  readonly podKey: string | undefined;
  /** Of all its networks. */
  readonly addresses: readonly Address[];
  readonly groups: readonly NameGroup[];
  /** That of its egress; undefined after the last policy has gone. */
  readonly profile: Profile | undefined;
}

/** Returns a view of live policies. */
export function policyView(live: Pick<LivePolicies, "members" | "locals" | "profiles" | "policiesOf">): PolicyView {
  const { members, locals, profiles } = live;
  return {
    profile: (key) => profiles.get(key)?.profile,
    holderOf: (address) => members.holdersOf(address)[0],
    holdersOf: (address) => members.holdersOf(address),
    peers: peerView(members),
    nodeLabels: (name) => members.nodeLabels(name),
    namespaceLabels: (name) => members.groups.namespaceLabels(name),
    namedPods: () => namedPods(locals),
    policiesOf: (pod) => live.policiesOf(pod),
  };
}

function namedPods(locals: LivePolicies["locals"]): readonly NamedPod[] {
  const named = [...locals.values()].filter(({ claimed }) => nameGroupsOf(claimed?.egress?.profile).length > 0);
  return [...Map.groupBy(named, ({ attachment }) => attachment.containerId)].map(([container, all]) => ({
    container,
    podKey: all[0]?.podKey,
    addresses: all.flatMap(({ addresses }) => addresses),
    groups: nameGroupsOf(all[0]?.claimed?.egress?.profile),
    profile: all[0]?.claimed?.egress?.profile,
  }));
}
