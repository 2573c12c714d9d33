import type { Address } from "../../../kernel/ip/address.ts";
import type { Pod } from "../../../objects/model.ts";
import type { Owner, PolicyCluster } from "./compiled_cluster.ts";

/**
 * Returns a cluster as one of its nodes knows it: an address of a pod that is attached there belongs only to that pod,
 * whatever other Pods say (POL-95).
 *
 * @param owners the pod or node that is attached with each address
 */
export function knownAt(
  cluster: PolicyCluster,
  owners: ReadonlyMap<Address, Owner>,
  node: string | undefined,
): PolicyCluster {
  const isOthers = (address: Address, { key }: Pod): boolean => {
    const owner = owners.get(address);
    return owner !== undefined && "pod" in owner && owner.pod.nodeName === node && owner.pod.key !== key;
  };
  const { namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies } = cluster;
  const known = [...pods].map(([key, pod]): [string, Pod] => [
    key,
    { ...pod, addresses: pod.addresses.filter((address) => !isOthers(address, pod)) },
  ]);
  return { namespaces, nodes, pods: new Map(known), networkPolicies, clusterNetworkPolicies };
}
