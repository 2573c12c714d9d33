import type { Address } from "../../../kernel/ip/address.ts";
import type { ClusterNetworkPolicy, Namespace, NetworkPolicy, Node, Pod, Service } from "../../model.ts";

/** All objects of a cluster that policies depend on; a ClusterStore is one. */
export interface PolicyObjects {
  readonly namespaces: ReadonlyMap<string, Namespace>;
  readonly nodes: ReadonlyMap<string, Node>;
  readonly pods: ReadonlyMap<string, Pod>;
  readonly networkPolicies: ReadonlyMap<string, NetworkPolicy>;
  readonly clusterNetworkPolicies: ReadonlyMap<string, ClusterNetworkPolicy>;
  /** Policies never see their addresses (POL-27), so these are not part of the outside. */
  readonly services?: ReadonlyMap<string, Pick<Service, "clusterIps">>;
}

export interface PolicyOptions {
  /** NetworkPolicies also apply to traffic from a pod to its own node. ClusterNetworkPolicies always do. */
  readonly policePodToOwnNode: boolean;
  /** Addresses of a node's DNS cache: NetworkPolicies always allow port 53 there, ClusterNetworkPolicies may not. */
  readonly nodeLocalDNS: readonly Address[];
}
