import type { Address } from "../../../kernel/ip/address.ts";
import type { Pod } from "../../model.ts";
import { judgeNodes } from "../../nodes/judged_nodes.ts";
import { addressesOfNode } from "../../nodes/node_addresses.ts";
import { usedNode } from "../../nodes/node_verdict.ts";
import type { PolicyObjects } from "./objects.ts";

/** The owner of an address. */
export type AddressOwner =
  | { readonly type: "pod"; readonly key: string }
  | { readonly type: "node"; readonly name: string };

/** Returns whether a pod has ended: its address may already be another pod's. */
export function isFinished({ phase }: Pod): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/** The owners of an address, the first by name first: several only where nothing says which of them has it. */
export type AddressOwners = readonly [AddressOwner, ...AddressOwner[]];

/**
 * Returns the pods and nodes of a cluster by their addresses. A node has its addresses whatever pods claim, except for
 * those in another node's pod CIDR. Of several pods those have an address that run and are not terminating. Several that
 * claim it equally all have it (POL-95).
 */
export function addressOwners({ pods, nodes }: PolicyObjects): ReadonlyMap<Address, AddressOwners> {
  const owners = new Map<Address, { readonly rank: number; readonly all: [AddressOwner, ...AddressOwner[]] }>();
  const claim = (address: Address, rank: number, owner: AddressOwner): void => {
    const known = owners.get(address);
    if (known === undefined || known.rank < rank) owners.set(address, { rank, all: [owner] });
    else if (known.rank === rank && !known.all.some((one) => isSameOwner(one, owner))) known.all.push(owner);
  };
  for (const pod of pods.values()) {
    const { key, hostNetwork, nodeName, addresses } = pod;
    if (hostNetwork ? nodeName === undefined : isFinished(pod)) continue;
    const owner = hostNetwork ? ({ type: "node", name: nodeName ?? "" } as const) : ({ type: "pod", key } as const);
    for (const address of addresses) claim(address, hostNetwork ? HOST_NETWORK : rankOf(pod), owner);
  }
  const judged = judgeNodes(nodes.values(), { nodeName: "" }).nodes;
  for (const node of nodes.values()) {
    const used = usedNode(node, judged.get(node.name));
    for (const address of addressesOfNode(used)) claim(address, NODE, { type: "node", name: node.name });
  }
  return new Map([...owners].map(([address, { all }]) => [address, all.length === 1 ? all : all.sort(byName)]));
}

const HOST_NETWORK = 4;
const NODE = 5;

function rankOf({ phase, isTerminating }: Pod): number {
  return (phase === "Running" ? 1 : 0) + (isTerminating ? 0 : 2);
}

/** Returns whether two owners are one pod or one node. */
export function isSameOwner(a: AddressOwner, b: AddressOwner): boolean {
  return a.type === b.type && nameOf(a) === nameOf(b);
}

function byName(a: AddressOwner, b: AddressOwner): number {
  return nameOf(a) < nameOf(b) ? -1 : 1;
}

function nameOf(owner: AddressOwner): string {
  return owner.type === "pod" ? owner.key : owner.name;
}
