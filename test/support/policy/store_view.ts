import type { ClusterStore } from "../../../objects/store.ts";
import type { ClusterView } from "../../../policyd/policies/drop_log/cluster_view.ts";
import { addressOwners } from "../../../objects/semantics/policies/address_owner.ts";

/** Returns a cluster's objects in the form that the drop log reads. */
export function storeView(store: ClusterStore): ClusterView {
  const owners = addressOwners(store);
  return {
    holderOf: (address) => {
      const owner = owners.get(address);
      const pod = owner?.type === "pod" ? store.pods.get(owner.key) : undefined;
      return owner?.type === "node" ? owner : pod && { type: "pod", pod };
    },
    nodeLabels: (name) => store.nodes.get(name)?.labels ?? {},
    namespaceLabels: (name) => store.namespaces.get(name)?.labels ?? { "kubernetes.io/metadata.name": name },
    policiesFor: ({ namespace }) => ({
      networkPolicies: [...store.networkPolicies.values()].filter((policy) => policy.namespace === namespace),
      clusterPolicies: [...store.clusterNetworkPolicies.values()],
    }),
  };
}
