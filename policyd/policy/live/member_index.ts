import type { Address } from "../../../kernel/ip/address.ts";
import type { Labels, Namespace, Node, Pod } from "../../cluster/model.ts";
import { addressesOfNode } from "../../cluster/node_addresses.ts";
import { frozenLabels } from "../../cluster/name.ts";
import { AddressOwners, AddressRight } from "./address_owners.ts";
import type { Identity } from "./group_index.ts";
import { GroupIndex } from "./group_index.ts";
import type { Member } from "./member_sets.ts";

/** Who has an address. */
export type AddressHolder =
  | { readonly type: "pod"; readonly pod: Pod }
  | { readonly type: "node"; readonly name: string };

/**
 * The pods and nodes of the cluster: whose each address is, and who is in which group. Pods of the host's network and
 * finished ones are no members (POL-54, POL-57).
 */
export class MemberIndex {
  readonly groups = new GroupIndex();
  readonly #owners = new AddressOwners();
  readonly #pods = new Map<string, Pod>();
  /** The last Pods of attachments whose own is gone, or is another one by now; they are members by themselves. */
  readonly #kept = new Map<string, Pod>();

  /** The Pod of a key. */
  pod(key: string): Pod | undefined {
    return this.#pods.get(key);
  }

  /**
   * Takes over a Pod, undefined for one that is gone.
   *
   * @returns the keys of the members whose elements may be others, those first who have got addresses; one alone where no
   *   address has gone from one to another
   */
  setPod(key: string, pod: Pod | undefined): ReadonlySet<string> {
    const member = podMember(key);
    const before = this.#pods.get(key);
    if (pod === undefined) this.#pods.delete(key);
    else this.#pods.set(key, pod);
    const selectable = pod !== undefined && isMember(pod) ? pod : undefined;
    if (selectable === undefined) this.groups.remove(member);
    else if (this.groups.identityOf(member) === undefined || !isSameLabels(before?.labels, selectable.labels)) {
      this.groups.addPod(member, selectable.namespace, selectable.labels);
    }
    return new Set([...this.#owners.replace(member, pod && claimOf(pod, member)), member]);
  }

  /** As {@link setPod}. */
  setNode(name: string, node: Node | undefined): ReadonlySet<string> {
    const member = nodeMember(name);
    this.groups.remove(member);
    if (node !== undefined) this.groups.addNode(member, node.labels);
    const addresses = node && addressesOfNode(node);
    const claim = addresses && { owner: member, right: AddressRight.node, addresses };
    return new Set([...this.#owners.replace(member, claim), member]);
  }

  /** Takes over a Namespace. @returns who is in other groups now, and the keys of those members */
  setNamespace(
    name: string,
    namespace: Namespace | undefined,
  ): { readonly identities: ReadonlySet<Identity>; readonly members: Iterable<string> } {
    const identities = this.groups.setNamespace(name, namespace?.labels);
    return { identities, members: [...identities].flatMap(({ members }) => [...members]) };
  }

  /**
   * Takes over whose the addresses of an attachment are, undefined for one that is gone. A Pod that is no longer there
   * stays a peer for as long as it is attached: it may still run (POL-58).
   *
   * @param key the attachment's
   * @param pod its Pod, the last there was; undefined where none is known: then the addresses are nobody's, and no other
   *   pod's either
   * @returns as {@link setPod}
   */
  setAttachment(key: string, addresses: readonly Address[] | undefined, pod: Pod | undefined): ReadonlySet<string> {
    const source = `${ATTACHMENT}${key}`;
    const isThere = pod !== undefined && this.#pods.get(pod.key) === pod;
    this.#keep(source, isThere || addresses === undefined ? undefined : pod);
    const owner = isThere ? podMember(pod.key) : source;
    const claim = addresses && { owner, right: AddressRight.attachment, addresses };
    return new Set([...this.#owners.replace(source, claim), source]);
  }

  /** A member as its elements are made; undefined for one that is none. */
  member(key: string): Member | undefined {
    const identity = this.groups.identityOf(key);
    if (identity === undefined) return undefined;
    return { identity, addresses: this.#owners.addressesOf(key), ports: this.#podOf(key)?.ports ?? [] };
  }

  /** None for a Node that is not there. */
  nodeLabels(name: string): Labels {
    return this.groups.identityOf(nodeMember(name))?.labels ?? NO_LABELS;
  }

  /** The member at an address. */
  memberAt(address: Address): Member | undefined {
    const owner = this.#owners.ownerOf(address);
    return owner === undefined ? undefined : this.member(owner);
  }

  /** Whose an address is; undefined outside of the cluster. */
  holderOf(address: Address): AddressHolder | undefined {
    const owner = this.#owners.ownerOf(address);
    if (owner === undefined) return undefined;
    if (owner.startsWith(NODE)) return { type: "node", name: owner.slice(NODE.length) };
    const pod = this.#podOf(owner);
    return pod && { type: "pod", pod };
  }

  #keep(member: string, pod: Pod | undefined): void {
    const wanted = pod !== undefined && isMember(pod) ? pod : undefined;
    if (this.#kept.get(member) === wanted) return;
    this.#kept.delete(member);
    this.groups.remove(member);
    if (wanted === undefined) return;
    this.#kept.set(member, wanted);
    this.groups.addPod(member, wanted.namespace, wanted.labels);
  }

  #podOf(member: string): Pod | undefined {
    return member.startsWith(POD) ? this.#pods.get(member.slice(POD.length)) : this.#kept.get(member);
  }
}

const NO_LABELS = frozenLabels([]);
const POD = "Pod ";
const NODE = "Node ";
const ATTACHMENT = "attachment ";

/** In one piece, as there is one for each pod of the cluster: a text that is put together from texts is kept as those. */
function podMember(key: string): string {
  return [POD, key].join("");
}

function nodeMember(name: string): string {
  return `${NODE}${name}`;
}

function isMember(pod: Pod): boolean {
  return !pod.hostNetwork && !isFinished(pod);
}

function isFinished({ phase }: Pod): boolean {
  return phase === "Succeeded" || phase === "Failed";
}

/** What a Pod says of its addresses: those of one of the host's network are its node's. */
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
