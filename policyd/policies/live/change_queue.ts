import { FairQueue } from "../../lib/fair_queue.ts";
import type { ObjectChange, ClusterObject, Kind } from "../../../objects/model.ts";
import { namespaceOf } from "../../../objects/namespace_of.ts";
import type { LocalPod, ProfiledPod } from "./pods/local_pods.ts";

/**
 * A pod that was attached. It is queued among the changes of objects, since those that were queued before it may still
 * replace its Pod.
 */
export interface Arrival {
  readonly type: "arrival";
  readonly local: LocalPod;
}

/**
 * Queued changes. Namespaces take turns, and the order is kept within each, with the Namespace itself. All other objects
 * without a namespace take turns as one more.
 */
export class ChangeQueue {
  readonly #queue = new FairQueue<ObjectChange | Arrival>(Number.POSITIVE_INFINITY);

  get size(): number {
    return this.#queue.size;
  }

  add(change: ObjectChange | Arrival): void {
    this.#queue.add(changeGroup(change), change);
  }

  /** Removes the next change; undefined when there is none. */
  take(): ObjectChange | Arrival | undefined {
    return this.#queue.take();
  }

  /** Whether no queued change may change which policies the pods of a group have. @param group a pod's */
  readonly isReady = (group: string): boolean => !this.#queue.hasGroup(group) && !this.#queue.hasGroup("");
}

/** Returns the group of queued work for a pod: its namespace, empty for an attachment without a pod. */
export function podGroup({ podKey = "" }: Pick<ProfiledPod, "podKey">): string {
  return namespaceOf(podKey);
}

function changeGroup(change: ObjectChange | Arrival): string {
  if (change.type === "arrival") return podGroup(change.local);
  return change.kind === "Namespace" ? change.key : namespaceOf(change.key);
}

/** Returns the object that was set; undefined for one that is gone. */
export function objectOf<K extends Kind>(
  change: ObjectChange,
  kind: K,
): Extract<ClusterObject, { readonly kind: K }> | undefined {
  return change.type === "set" && isOf(change.object, kind) ? change.object : undefined;
}

function isOf<K extends Kind>(object: ClusterObject, kind: K): object is Extract<ClusterObject, { readonly kind: K }> {
  return object.kind === kind;
}
