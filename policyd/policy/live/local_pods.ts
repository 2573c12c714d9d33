import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { attachmentKey } from "../../attachments/registry.ts";
import type { Pod } from "../../cluster/model.ts";
import type { ActiveProfile } from "./active_profiles.ts";
import type { NamespaceLife } from "./retained_policies.ts";

/** The profiles of a pod; undefined where no policy has a say in the direction. */
export interface PodProfiles {
  readonly egress: ActiveProfile | undefined;
  readonly ingress: ActiveProfile | undefined;
}

/** What policies are worked out for. */
export interface JudgedPod {
  /** Its Pod's key; undefined for what is attached without a pod, which no policy can select. */
  readonly podKey: string | undefined;
  /** Undefined where it has no pod. */
  readonly life: NamespaceLife | undefined;
  /** Its Pod, when that is gone the last there was; undefined before there was one. */
  pod: Pod | undefined;
  /** What it is to be judged by; undefined while that cannot be told, and before it was asked. */
  wanted: PodProfiles | undefined;
}

/** What policies ask of an attachment. */
export type PolicedAttachment = Pick<AttachmentRecord, "network" | "containerId" | "ifname" | "pod" | "addresses">;

/** A pod attached to this node, and what is made of it. */
export interface LocalPod extends JudgedPod {
  readonly type: "attached";
  /** Of the attachment. */
  readonly key: string;
  readonly attachment: PolicedAttachment;
  readonly addresses: readonly Address[];
  /** What its elements say; undefined while it may send and receive nothing. */
  claimed: PodProfiles | undefined;
}

/** The pods of this node, found by what changes about them. */
export class LocalPods {
  readonly #pods = new Map<string, LocalPod>();
  readonly #byPod = new Map<string, Set<LocalPod>>();
  readonly #byNamespace = new Map<string, Set<LocalPod>>();
  readonly #byAddress = new Map<Address, Set<LocalPod>>();

  /** Adds an attachment; one of its names must not be there. */
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

  /** Who has an address; of several, as two networks may give it, the first by its attachment's key. */
  at(address: Address): LocalPod | undefined {
    const [first, ...others] = this.#byAddress.get(address) ?? NONE;
    return others.reduce((least, one) => (least === undefined || one.key < least.key ? one : least), first);
  }
}

const NONE: ReadonlySet<LocalPod> = new Set();

/** Whether a Pod is the one that was attached: a name may be another pod's by now. Files give no uid. */
export function isPodOf({ pod }: PolicedAttachment, { uid, staticUid }: Pod): boolean {
  return pod !== undefined && (pod.uid === "" || uid === "" || pod.uid === uid || pod.uid === staticUid);
}

function enter<K>(index: Map<K, Set<LocalPod>>, key: K, local: LocalPod): void {
  const found = index.get(key) ?? new Set();
  index.set(key, found.add(local));
}

function leave<K>(index: Map<K, Set<LocalPod>>, key: K, local: LocalPod): void {
  const found = index.get(key);
  found?.delete(local);
  if (found?.size === 0) index.delete(key);
}
