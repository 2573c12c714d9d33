import type { Address } from "../../../kernel/ip/address.ts";
import type { ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod } from "../../cluster/model.ts";

/** Everything of a cluster that decides about its policies; a ClusterStore is one. */
export interface PolicyObjects {
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pods: ReadonlyMap<string, Pod>;
  readonly networkPolicies: ReadonlyMap<string, NetworkPolicy>;
  readonly clusterNetworkPolicies: ReadonlyMap<string, ClusterNetworkPolicy>;
}

export interface PolicyOptions {
  /** NetworkPolicies hold for what a pod sends to its own node, too. ClusterNetworkPolicies always do. */
  readonly policePodToOwnNode: boolean;
  /** Where a node's own DNS cache listens: NetworkPolicies keep no pod from port 53 there. ClusterNetworkPolicies do. */
  readonly nodeLocalDNS: readonly Address[];
}
