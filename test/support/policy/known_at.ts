import type { Address } from "../../../kernel/ip/address.ts";
import type { Pod } from "../../../objects/model.ts";
import type { PolicyObjects } from "../../../objects/semantics/policies/objects.ts";
import type { Holder } from "./compiled_cluster.ts";

/**
 * Returns a cluster as one of its nodes knows it: an address of a pod that is attached there belongs only to that pod,
 * whatever other Pods say (POL-95).
 *
 * @param holders the pod that is attached with each address, or the node that has it
 */
export function knownAt(
  cluster: PolicyObjects,
  holders: ReadonlyMap<Address, Holder>,
  node: string | undefined,
): PolicyObjects {
  const isOthers = (address: Address, { key }: Pod): boolean => {
    const holder = holders.get(address);
    return holder?.pod !== undefined && holder.node === node && holder.pod.key !== key;
  };
  const { namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies } = cluster;
  const known = [...pods].map(([key, pod]): [string, Pod] => [
    key,
    { ...pod, addresses: pod.addresses.filter((address) => !isOthers(address, pod)) },
  ]);
  return { namespaces, nodes, pods: new Map(known), networkPolicies, clusterNetworkPolicies };
}
