import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { Address } from "../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../nftables/fake/fake_nftables.ts";
import type { ClusterObject, Pod } from "../../../../objects/model.ts";
import type { ClusterStore } from "../../../../objects/store.ts";
import type { PolicyOptions } from "../../../../policyd/policies/compile/options.ts";
import { CompiledCluster } from "../compiled_cluster.ts";
import { type LiveEvent, LiveNode, set } from "./live_node.ts";
import { attachmentOf } from "./objects.ts";
import { TickingClock } from "./ticking_clock.ts";

/** Returns all objects of a cluster that matter to policies. */
export function objectsOf(store: ClusterStore): readonly ClusterObject[] {
  const { namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies } = store;
  return [namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies].flatMap(
    (map: ReadonlyMap<string, ClusterObject>) => [...map.values()],
  );
}

/** Returns the attachments of a node's pods, with the addresses that they own. */
export function attachmentsOf(
  store: ClusterStore,
  nodeName: string,
  options: PolicyOptions,
): readonly AttachmentRecord[] {
  const addresses = new Map<Pod, Address[]>();
  for (const [address, owner] of new CompiledCluster(store, options).owners) {
    if (!("pod" in owner) || owner.pod.nodeName !== nodeName) continue;
    addresses.set(owner.pod, [...(addresses.get(owner.pod) ?? []), address]);
  }
  return [...addresses].map(([pod, own]) => attachmentOf(pod, own));
}

/** Returns a node that receives objects and attachments one by one, after it has begun to write. */
export function liveNodeOf(
  events: readonly LiveEvent[],
  options: PolicyOptions,
): { readonly node: LiveNode; readonly kernel: FakeNftables } {
  const kernel = new FakeNftables();
  const node = new LiveNode({ kernel, clock: new TickingClock(1), options });
  for (const event of events) node.apply(event);
  node.settle();
  return { node, kernel };
}

/** Returns the events of objects, one by one, and of attachments. */
export function eventsOf(
  objects: readonly ClusterObject[],
  attachments: readonly AttachmentRecord[],
): readonly LiveEvent[] {
  return [
    ...objects.map((object): LiveEvent => ({ type: "objects", changes: [set(object)] })),
    ...attachments.map((attachment): LiveEvent => ({ type: "attached", attachment })),
  ];
}
