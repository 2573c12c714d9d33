import type { Address } from "../../../kernel/ip/address.ts";
import type { AddressHolder } from "../../../policyd/flows/flow_end_names.ts";
import type { ClusterStore } from "../../../objects/store.ts";
import type { ClusterView } from "../../../policyd/policies/drop_log/cluster_view.ts";
import { addressOwners } from "../../../objects/semantics/policies/address_owner.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";

/** Returns a cluster's objects in the form that the drop log reads. */
export function storeView(store: ClusterStore): ClusterView {
  const owners = addressOwners(store);
  const holdersOf = (address: Address): readonly AddressHolder[] =>
    (owners.get(address) ?? []).flatMap((owner): readonly AddressHolder[] => {
      const pod = owner.type === "pod" ? store.pods.get(owner.key) : undefined;
      return owner.type === "node" ? [owner] : pod === undefined ? [] : [{ type: "pod", pod }];
    });
  return {
    holderOf: (address) => holdersOf(address)[0],
    holdersOf,
    nodeLabels: (name) => store.nodes.get(name)?.labels ?? {},
    namespaceLabels: (name) => store.namespaces.get(name)?.labels ?? { "kubernetes.io/metadata.name": name },
    policiesOf: ({ namespace, labels }) => ({
      networkPolicies: [...store.networkPolicies.values()].filter(
        (policy) => policy.namespace === namespace && selects(policy.podSelector, labels),
      ),
      // Those that select other pods change no verdict.
      clusterPolicies: [...store.clusterNetworkPolicies.values()],
    }),
  };
}
