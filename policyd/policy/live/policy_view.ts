import type { Address } from "../../../kernel/ip/address.ts";
import type { ClusterNetworkPolicy, Labels, NetworkPolicy, Pod } from "../../cluster/model.ts";
import type { Profile } from "../compile/profile.ts";
import type { LivePolicies } from "./live_policies.ts";
import type { AddressHolder } from "./member_index.ts";

/** A profile that pods of this node are judged by. */
export interface ProfileUse {
  readonly profile: Profile;
  /** Keys of the pods, in order. */
  readonly pods: readonly string[];
}

/** What there is behind the numbers of the rules. No answer but the first takes longer in a larger cluster. */
export interface PolicyView {
  /** Undefined for a profile that no pod of this node has; looks at all pods of the node. @param key the profile's */
  profileUse(key: string): ProfileUse | undefined;
  /** Whom the sets take an address for; undefined outside of the cluster. */
  holderOf(address: Address): AddressHolder | undefined;
  nodeLabels(name: string): Labels;
  namespaceLabels(name: string): Labels;
  /** All policies that may select a pod, those it keeps of a namespace that ends among them. */
  policiesFor(pod: Pick<Pod, "namespace" | "key">): {
    readonly networkPolicies: readonly NetworkPolicy[];
    readonly clusterPolicies: readonly ClusterNetworkPolicy[];
  };
}

/** The view of what is live. */
export function policyView(live: Pick<LivePolicies, "members" | "locals" | "profiles" | "policiesFor">): PolicyView {
  const { members, locals, profiles } = live;
  return {
    profileUse: (key) => {
      const active = profiles.get(key);
      if (active === undefined) return undefined;
      const users = [...locals.values()].filter(({ claimed }) => claimed?.[active.profile.direction] === active);
      const pods = users.map(({ podKey }) => podKey).filter((pod) => pod !== undefined);
      return { profile: active.profile, pods: [...new Set(pods)].sort() };
    },
    holderOf: (address) => members.holderOf(address),
    nodeLabels: (name) => members.nodeLabels(name),
    namespaceLabels: (name) => members.groups.namespaceLabels(name),
    policiesFor: ({ namespace, key }) => live.policiesFor(namespace, key),
  };
}
