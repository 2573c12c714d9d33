import type { Address } from "../../../kernel/ip/address.ts";
import type { Pod } from "../../model.ts";
import { addressesOfNode } from "../../nodes/node_addresses.ts";
import type { PolicyObjects } from "./objects.ts";

/** The owner of an address. */
export type AddressOwner =
  | { readonly type: "pod"; readonly key: string }
  | { readonly type: "node"; readonly name: string };

/** Returns whether a pod has ended: its address may already be another pod's. */
export function isFinished({ phase }: Pod): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/**
 * Returns the pods and nodes of a cluster by their addresses. A node has its addresses whatever pods claim; if two pods
 * claim one, it belongs to the pod that runs and is not terminating, then to the first by name.
 */
export function addressOwners({ pods, nodes }: PolicyObjects): ReadonlyMap<Address, AddressOwner> {
  const owners = new Map<Address, AddressOwner>();
  const ranked = [...pods.values()].filter((pod) => !pod.hostNetwork && !isFinished(pod)).sort(byClaim);
  for (const { key, addresses } of ranked) {
    for (const address of addresses) if (!owners.has(address)) owners.set(address, { type: "pod", key });
  }
  for (const { hostNetwork, nodeName, addresses } of pods.values()) {
    if (!hostNetwork || nodeName === undefined) continue;
    for (const address of addresses) owners.set(address, { type: "node", name: nodeName });
  }
  for (const node of nodes.values()) {
    for (const address of addressesOfNode(node)) owners.set(address, { type: "node", name: node.name });
  }
  return owners;
}

function byClaim(a: Pod, b: Pod): number {
  return claim(b) - claim(a) || (a.key < b.key ? -1 : 1);
}

function claim({ phase, isTerminating }: Pod): number {
  return (phase === "Running" ? 1 : 0) + (isTerminating ? 0 : 2);
}
