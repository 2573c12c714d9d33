import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { Address } from "../../../../kernel/ip/address.ts";
import { attachmentKey } from "../../../attachments/registry.ts";
import type { Pod } from "../../../../objects/model.ts";
import type { ActiveProfile } from "../sets/active_profiles.ts";
import type { NamespaceLife } from "../index/retained_policies.ts";

/** The profiles of a pod; undefined if no policy applies in the direction. */
export interface PodProfiles {
  readonly egress: ActiveProfile | undefined;
  readonly ingress: ActiveProfile | undefined;
}

/** A pod whose policies are computed. */
export interface ProfiledPod {
  /** The key of its Pod; undefined for an attachment without a pod, which no policy can select. */
  readonly podKey: string | undefined;
  /** Undefined if it has no pod. */
  readonly life: NamespaceLife | undefined;
  /** Its Pod, or the last one if that is gone; undefined before there was one. */
  pod: Pod | undefined;
  /** The profiles that should apply to it; undefined while they are not known or not computed yet. */
  wanted: PodProfiles | undefined;
}

/** The fields of an attachment that policies need. */
export type PolicedAttachment = Pick<AttachmentRecord, "network" | "containerId" | "ifname" | "pod" | "addresses">;

/** A pod attached to this node, and its state. */
export interface LocalPod extends ProfiledPod {
  readonly type: "attached";
  /** The key of the attachment. */
  readonly key: string;
  readonly attachment: PolicedAttachment;
  readonly addresses: readonly Address[];
  /** The profiles to which its elements lead; undefined while it may send and receive nothing. */
  claimed: PodProfiles | undefined;
}

/** The pods of this node, indexed by everything that may change about them. */
export class LocalPods {
  readonly #pods = new Map<string, LocalPod>();
  readonly #byPod = new Map<string, Set<LocalPod>>();
  readonly #byNamespace = new Map<string, Set<LocalPod>>();
  readonly #byAddress = new Map<Address, Set<LocalPod>>();

  /** Adds an attachment, whose name must be new. */
  add(attachment: PolicedAttachment, life: NamespaceLife | undefined): LocalPod {
    const { pod } = attachment;
    const local: LocalPod = {
      type: "attached",
      key: attachmentKey(attachment),
      attachment,
      addresses: attachment.addresses.map(({ address }) => address),
      podKey: pod === undefined ? undefined : `${pod.namespace}/${pod.name}`,
      life,
      pod: undefined,
      wanted: undefined,
      claimed: undefined,
    };
    this.#pods.set(local.key, local);
    if (local.podKey !== undefined) enter(this.#byPod, local.podKey, local);
    if (pod !== undefined) enter(this.#byNamespace, pod.namespace, local);
    for (const address of local.addresses) enter(this.#byAddress, address, local);
    return local;
  }

  remove(local: LocalPod): void {
    const { pod } = local.attachment;
    this.#pods.delete(local.key);
    if (local.podKey !== undefined) leave(this.#byPod, local.podKey, local);
    if (pod !== undefined) leave(this.#byNamespace, pod.namespace, local);
    for (const address of local.addresses) leave(this.#byAddress, address, local);
  }

  /** @param key the attachment's */
  get(key: string): LocalPod | undefined {
    return this.#pods.get(key);
  }

  values(): Iterable<LocalPod> {
    return this.#pods.values();
  }

  ofPod(key: string): ReadonlySet<LocalPod> {
    return this.#byPod.get(key) ?? NONE;
  }

  ofNamespace(namespace: string): ReadonlySet<LocalPod> {
    return this.#byNamespace.get(namespace) ?? NONE;
  }

  /** Returns the pod that has an address. If two networks give it, the first by its attachment's key. */
  at(address: Address): LocalPod | undefined {
    const [first, ...others] = this.#byAddress.get(address) ?? NONE;
    return others.reduce((least, one) => (least === undefined || one.key < least.key ? one : least), first);
  }
}

/** Returns why a pod has no policies in force yet. @param isWorkedOn whether some may be computed already */
export function reasonToWait({ podKey, pod, life }: LocalPod, isWorkedOn: boolean): string {
  if (life?.isUnknown === true) {
    return `the namespace of ${podKey} was being deleted before policyd started, or soon after many of its policies, which are not known`;
  }
  if (isWorkedOn) return "policyd is working out policies";
  if (pod === undefined) return `policyd does not know its Pod ${podKey} yet, which policies may select`;
  return `policyd does not know its Namespace ${pod.namespace} yet, by whose labels policies may select`;
}

const NONE: ReadonlySet<LocalPod> = new Set();

function enter<K>(index: Map<K, Set<LocalPod>>, key: K, local: LocalPod): void {
  const found = index.get(key) ?? new Set();
  index.set(key, found.add(local));
}

function leave<K>(index: Map<K, Set<LocalPod>>, key: K, local: LocalPod): void {
  const found = index.get(key);
  found?.delete(local);
  if (found?.size === 0) index.delete(key);
}
