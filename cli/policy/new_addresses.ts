import type { AddressOwners } from "../../objects/semantics/policies/address_owner.ts";
import { type Address, addressPlus, compareAddresses, type Family, familyOf } from "../../kernel/ip/address.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import type { ClusterObject, ClusterPolicyPeer, Pod, PolicyPeer } from "../../objects/model.ts";

type Peer = PolicyPeer | ClusterPolicyPeer;
type Owners = ReadonlyMap<Address, AddressOwners>;
type IsWithin = (address: Address) => boolean;

/**
 * The addresses of pods that are in no file: the next free ones after the highest of a pod, so that new pods are in the
 * blocks of all pods but not in those of single ones.
 */
export class NewAddresses {
  readonly #taken: ReadonlySet<Address>;
  readonly #owners: readonly Owners[];
  /** The highest address of a pod in each family. */
  readonly #highest: readonly Address[];
  readonly #blocks: readonly IsWithin[];
  /** Whether each block has the address of a new pod. */
  readonly #hasNew: ReadonlyMap<Family, readonly boolean[]>;

  /**
   * @param owners those of each side
   * @param peers those of all policies, whose blocks tell addresses apart
   */
  constructor(objects: readonly ClusterObject[], owners: readonly Owners[], peers: readonly Peer[]) {
    const ofPods = objects.flatMap((one) => (one.kind === "Pod" && !one.hostNetwork ? one.addresses : []));
    this.#owners = owners;
    const ofNodes = objects.flatMap((one) => (one.kind === "Node" ? one.addresses : []));
    this.#taken = new Set([...ofPods, ...ofNodes.map(({ address }) => address)]);
    this.#highest = [...Map.groupBy(ofPods, familyOf).values()].map((ofFamily) =>
      ofFamily.reduce((a, b) => (compareAddresses(a, b) > 0 ? a : b)),
    );
    this.#blocks = peers.flatMap(blocksOf);
    this.#hasNew = new Map(this.after().map((address) => [familyOf(address), this.#blocks.map((has) => has(address))]));
  }

  /** Returns the addresses of a new pod, of each family that pods have. @param last those of the new pod before */
  after(last: readonly Address[] = this.#highest): readonly Address[] {
    return last.map((address) => {
      let next = addressPlus(address, 1n);
      while (next !== undefined && this.#taken.has(next)) next = addressPlus(next, 1n);
      return next ?? address;
    });
  }

  /**
   * Returns whether each block has a pod's addresses exactly where it has those of new pods, and nobody else has them:
   * what both are allowed says nothing of a new one (POL-95).
   */
  isAsNew({ key, addresses }: Pod): boolean {
    return addresses.every((address) => {
      const owners = this.#owners.flatMap((side) => side.get(address) ?? []);
      if (owners.some((one) => one.type !== "pod" || one.key !== key)) return false;
      const hasNew = this.#hasNew.get(familyOf(address));
      return this.#blocks.every((has, i) => has(address) === hasNew?.[i]);
    });
  }
}

/** Returns a function for each block of a peer, which returns whether the block has an address. */
export function blocksOf(peer: Peer): readonly IsWithin[] {
  if (peer.type === "networks") return peer.cidrs.map((cidr) => (address: Address) => cidrContains(cidr, address));
  if (peer.type !== "ipBlock") return [];
  const { cidr, except } = peer;
  return [(address) => cidrContains(cidr, address) && !except.some((one) => cidrContains(one, address))];
}
