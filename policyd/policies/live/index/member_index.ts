import type { AddressHolder } from "../../../flows/flow_end_names.ts";
import type { Address } from "../../../../kernel/ip/address.ts";
import type { Labels, Namespace, Node, Pod } from "../../../../objects/model.ts";
import { addressesOfNode } from "../../../../objects/nodes/node_addresses.ts";
import { frozenLabels } from "../../../../objects/name.ts";
import { AddressOwners, AddressRight } from "./address_owners.ts";
import { GroupIndex, type Identity } from "./group_index.ts";
import type { Member } from "../sets/member_claims.ts";
import { isFinished } from "../../../../objects/semantics/policies/address_owner.ts";

/**
 * The pods and nodes of the cluster: which of them each address belongs to, and which groups each is in. Pods of the
 * host's network and finished pods are not members (POL-54, POL-57).
 */
export class MemberIndex {
  readonly groups = new GroupIndex();
  readonly #owners = new AddressOwners();
  readonly #pods = new Map<string, Pod>();
  /** The last Pods of attachments whose own Pod is gone or replaced; they are members of their own. */
  readonly #kept = new Map<string, Pod>();

  /** The Pod with a key. */
  pod(key: string): Pod | undefined {
    return this.#pods.get(key);
  }

  /**
   * Records a Pod, undefined for one that is gone.
   *
   * @returns the keys of the members whose elements may have changed, first those that gained addresses; a single one
   *   if no address moved to another member
   */
  setPod(key: string, pod: Pod | undefined): ReadonlySet<string> {
    const member = podMember(key);
    const before = this.#pods.get(key);
    if (pod === undefined) this.#pods.delete(key);
    else this.#pods.set(key, pod);
    const selectable = pod !== undefined && isMember(pod) ? pod : undefined;
    if (selectable === undefined) this.groups.remove(member);
    else if (this.groups.identityOf(member) === undefined || !isSameLabels(before?.labels, selectable.labels)) {
      this.groups.add(member, selectable.namespace, selectable.labels);
    }
    return this.#withSharers([...this.#owners.replace(member, pod && claimOf(pod, member)), member]);
  }

  /** Like {@link setPod}, for a node. */
  setNode(name: string, node: Node | undefined): ReadonlySet<string> {
    const member = nodeMember(name);
    if (node === undefined) this.groups.remove(member);
    else this.groups.add(member, undefined, node.labels);
    const addresses = node && addressesOfNode(node);
    const claim = addresses && { owner: member, right: AddressRight.node, addresses };
    return this.#withSharers([...this.#owners.replace(member, claim), member]);
  }

  /** Records a Namespace. @returns the identities whose groups have changed, and the keys of their members */
  setNamespace(
    name: string,
    namespace: Namespace | undefined,
  ): { readonly identities: ReadonlySet<Identity>; readonly members: Iterable<string> } {
    const identities = this.groups.setNamespace(name, namespace?.labels);
    return { identities, members: this.#withSharers([...identities].flatMap(({ members }) => [...members])) };
  }

  /**
   * Records to which pod the addresses of an attachment belong, undefined for one that is gone. A Pod that was deleted
   * stays a peer for as long as it is attached: it may still run (POL-58).
   *
   * @param key the attachment's
   * @param pod its last Pod; undefined when none is known: then the addresses belong to nobody, not even to another pod
   * @returns as {@link setPod}
   */
  setAttachment(key: string, addresses: readonly Address[] | undefined, pod: Pod | undefined): ReadonlySet<string> {
    const source = `${ATTACHMENT}${key}`;
    const isThere = pod !== undefined && this.#pods.get(pod.key) === pod;
    this.#keep(source, isThere || addresses === undefined ? undefined : pod);
    const owner = isThere ? podMember(pod.key) : source;
    const claim = addresses && { owner, right: AddressRight.attachment, addresses };
    return this.#withSharers([...this.#owners.replace(source, claim), source]);
  }

  /** Returns a member with all that its elements depend on; undefined if there is none with this key. */
  member(key: string): Member | undefined {
    const member = this.#memberAlone(key);
    if (member === undefined || !this.#owners.isAnyContested) return member;
    const shared = member.addresses.flatMap((address): [Address, readonly (Member | undefined)[]][] => {
      const others = this.#owners.ownersOf(address).filter((owner) => owner !== key);
      return others.length === 0 ? [] : [[address, others.map((owner) => this.#memberAlone(owner))]];
    });
    return shared.length === 0 ? member : { ...member, shared: new Map(shared) };
  }

  #memberAlone(key: string): Member | undefined {
    const identity = this.groups.identityOf(key);
    if (identity === undefined) return undefined;
    const ports = this.#podOf(key)?.ports ?? [];
    return { identity, addresses: this.#owners.addressesOf(key), ports, shared: NOTHING_SHARED };
  }

  /** Adds the members that have an address together with one of these: their elements depend on these as well. */
  #withSharers(keys: readonly string[]): ReadonlySet<string> {
    const all = new Set(keys);
    if (!this.#owners.isAnyContested) return all;
    for (const key of keys) {
      for (const address of this.#owners.addressesOf(key)) {
        for (const owner of this.#owners.ownersOf(address)) all.add(owner);
      }
    }
    return all;
  }

  /** Returns no labels for a Node that does not exist. */
  nodeLabels(name: string): Labels {
    return this.groups.identityOf(nodeMember(name))?.labels ?? NO_LABELS;
  }

  /** The members that have an address, undefined for one that no selector selects; none outside the cluster. */
  membersAt(address: Address): readonly (Member | undefined)[] {
    return this.#owners.ownersOf(address).map((owner) => this.#memberAlone(owner));
  }

  /** The holders of an address by name, nearly always one; none outside the cluster. */
  holdersOf(address: Address): readonly AddressHolder[] {
    return this.#owners.ownersOf(address).flatMap((owner): readonly AddressHolder[] => {
      if (owner.startsWith(NODE)) return [{ type: "node", name: owner.slice(NODE.length) }];
      const pod = this.#podOf(owner);
      return pod === undefined ? [] : [{ type: "pod", pod }];
    });
  }

  #keep(member: string, pod: Pod | undefined): void {
    const wanted = pod !== undefined && isMember(pod) ? pod : undefined;
    if (this.#kept.get(member) === wanted) return;
    this.#kept.delete(member);
    this.groups.remove(member);
    if (wanted === undefined) return;
    this.#kept.set(member, wanted);
    this.groups.add(member, wanted.namespace, wanted.labels);
  }

  #podOf(member: string): Pod | undefined {
    return member.startsWith(POD) ? this.#pods.get(member.slice(POD.length)) : this.#kept.get(member);
  }
}

const NO_LABELS = frozenLabels([]);
const NOTHING_SHARED: Member["shared"] = new Map();
const POD = "Pod ";
const NODE = "Node ";
const ATTACHMENT = "attachment ";

/** Joins to a flat string: a concatenated one keeps its parts in memory, and each pod of the cluster has one. */
function podMember(key: string): string {
  return [POD, key].join("");
}

function nodeMember(name: string): string {
  return `${NODE}${name}`;
}

function isMember(pod: Pod): boolean {
  return !pod.hostNetwork && !isFinished(pod);
}

/** Returns the addresses that a Pod claims: those of a pod of the host's network belong to its node. */
function claimOf(pod: Pod, owner: string): Parameters<AddressOwners["replace"]>[1] {
  const { addresses, hostNetwork, nodeName, phase, isTerminating } = pod;
  if (!hostNetwork) {
    if (isFinished(pod)) return undefined;
    return { owner, right: AddressRight.pod(phase === "Running", isTerminating), addresses };
  }
  if (nodeName === undefined) return undefined;
  return { owner: nodeMember(nodeName), right: AddressRight.hostNetworkPod, addresses };
}

function isSameLabels(a: Labels | undefined, b: Labels): boolean {
  if (a === undefined) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}
