import * as fc from "fast-check";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { ClusterObject, Pod } from "../../../../objects/model.ts";
import { storeOf } from "../../evaluate/store.ts";
import { policyCases } from "../arbitrary_cluster.ts";
import { NAMESPACES } from "../arbitrary_words.ts";
import { manifestsOf } from "../raw_cluster.ts";
import { gone, type LiveEvent, set } from "./live_node.ts";
import { attachmentOf } from "./objects.ts";

const SAMPLES = 150;
/** The number of pods of a namespace that may be this node's; the others never are. */
const LOCAL_PLACES = 3;
const UIDS = ["", "a", "a", "b"] as const;

/**
 * Generates an endless sequence of random events: versions of some pods, nodes, namespaces and policies, and pods that
 * are attached and detached, some of which have another pod's address. A namespace is not deleted while it has a pod,
 * and no pod comes before its namespace exists again, so that only the last Pods of attached pods are left of earlier
 * states (`ClusterState`).
 *
 * @param random numbers from 0 to 1; the same ones give the same events
 */
export function* liveEvents(random: () => number): Generator<LiveEvent, never> {
  const below = (count: number): number => Math.floor(random() * count);
  const any = <T>(values: readonly T[]): T => {
    const value = values[below(values.length)];
    if (value === undefined) throw new Error("nothing to choose from");
    return value;
  };
  const objects = [...Map.groupBy(sampledObjects(below(2 ** 31)), ({ kind, key }) => `${kind} ${key}`).values()];
  const attached = new Map<string, AttachmentRecord>();
  const contents = new NamespaceContents(attached);
  for (;;) {
    if (below(6) === 0) {
      const attachment = anyAttachment(any(NAMESPACES), below(LOCAL_PLACES), below(12) === 0 ? below(6) : undefined);
      if (contents.hasEnded(attachment.pod?.namespace)) continue;
      if (attached.has(attachment.containerId) && below(2) === 0) {
        attached.delete(attachment.containerId);
        yield { type: "detached", name: attachment };
      } else {
        attached.set(attachment.containerId, attachment);
        yield { type: "attached", attachment };
      }
      continue;
    }
    const changes = new Map(
      Array.from({ length: any([1, 1, 1, 1, 2, 5]) }, () => {
        const object = any(any(objects));
        const isGone = below(4) === 0 ? contents.mayGo(object) : !contents.mayCome(object);
        contents.take(object, isGone);
        const version = object.kind === "Pod" ? { ...object, uid: any(UIDS) } : object;
        return [`${object.kind} ${object.key}`, isGone ? gone(object) : set(Object.freeze(version))] as const;
      }),
    );
    yield { type: "objects", changes: [...changes.values()] };
  }
}

/** The pods of namespaces, which make a namespace end last and begin first, as with the API server. */
class NamespaceContents {
  readonly #attached: ReadonlyMap<string, AttachmentRecord>;
  /** The namespaces, by the keys of their Pods. */
  readonly #pods = new Map<string, string>();
  readonly #ended = new Set<string>();

  constructor(attached: ReadonlyMap<string, AttachmentRecord>) {
    this.#attached = attached;
  }

  hasEnded(namespace: string | undefined): boolean {
    return namespace !== undefined && this.#ended.has(namespace);
  }

  mayCome(object: ClusterObject): boolean {
    return object.kind !== "Pod" || !this.#ended.has(object.namespace);
  }

  mayGo({ kind, key }: ClusterObject): boolean {
    if (kind !== "Namespace") return true;
    const isAttached = [...this.#attached.values()].some(({ pod }) => pod?.namespace === key);
    return !isAttached && ![...this.#pods.values()].includes(key);
  }

  take(object: ClusterObject, isGone: boolean): void {
    if (object.kind === "Pod") {
      if (isGone) this.#pods.delete(object.key);
      else this.#pods.set(object.key, object.namespace);
    } else if (object.kind === "Namespace") {
      if (isGone) this.#ended.add(object.key);
      else this.#ended.delete(object.key);
    }
  }
}

/** Returns many versions of each of some objects. */
function sampledObjects(seed: number): readonly ClusterObject[] {
  return fc.sample(policyCases, { numRuns: SAMPLES, seed }).flatMap(({ cluster }) => {
    const { pods, nodes, namespaces, networkPolicies, clusterNetworkPolicies } = storeOf(manifestsOf(cluster));
    return [pods, nodes, namespaces, networkPolicies, clusterNetworkPolicies].flatMap(
      (map: ReadonlyMap<string, ClusterObject>) => [...map.values()],
    );
  });
}

/** Returns the pod of a place in a namespace; with the addresses of another place where one is given. */
function anyAttachment(namespace: string, place: number, other = place): AttachmentRecord {
  const pod = { namespace, name: `p${place}`, uid: place === 0 ? "" : "a" };
  return attachmentOf(pod, [`10.244.${other}.5`, `fd00:244:${other}::5`]);
}

/** The state of a cluster and a node after some events. */
export class ClusterState {
  readonly #objects = new Map<string, ClusterObject>();
  readonly #attachments = new Map<string, { readonly attachment: AttachmentRecord; lastPod: Pod | undefined }>();

  apply(event: LiveEvent): void {
    if (event.type === "detached") return void this.#attachments.delete(event.name.containerId);
    if (event.type === "attached") {
      this.#attachments.set(event.attachment.containerId, { attachment: event.attachment, lastPod: undefined });
    } else {
      for (const change of event.changes) {
        if (change.type === "set") this.#objects.set(`${change.kind} ${change.key}`, change.object);
        else this.#objects.delete(`${change.kind} ${change.key}`);
      }
    }
    for (const entry of this.#attachments.values()) entry.lastPod = this.#podOf(entry.attachment) ?? entry.lastPod;
  }

  /** Returns the number of objects of a kind. */
  count(kind: ClusterObject["kind"]): number {
    return [...this.#objects.values()].filter((object) => object.kind === kind).length;
  }

  get attachments(): number {
    return this.#attachments.size;
  }

  /**
   * Returns the events from which a new node learns the whole state: each pod is attached while its last Pod exists,
   * before anything else exists.
   *
   * @param order of the other events
   */
  events(order: <T>(all: readonly T[]) => readonly T[]): readonly LiveEvent[] {
    const attached = order([...this.#attachments.values()]).flatMap(({ attachment, lastPod }): readonly LiveEvent[] => [
      ...(lastPod === undefined ? [] : [{ type: "objects", changes: [set(lastPod)] } as const]),
      { type: "attached", attachment },
      ...(lastPod === undefined ? [] : [{ type: "objects", changes: [gone(lastPod)] } as const]),
    ]);
    const objects = order([...this.#objects.values()]).map((object): LiveEvent => ({
      type: "objects",
      changes: [set(object)],
    }));
    return [...attached, ...objects];
  }

  #podOf({ pod }: AttachmentRecord): Pod | undefined {
    const object = pod && this.#objects.get(`Pod ${pod.namespace}/${pod.name}`);
    if (pod === undefined || object?.kind !== "Pod") return undefined;
    return pod.uid === "" || object.uid === "" || object.uid === pod.uid ? object : undefined;
  }
}
