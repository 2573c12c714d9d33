import { nameOf } from "../../../policyd/cluster/gate.ts";
import type { ClusterObject, Node, Pod } from "../../../policyd/cluster/model.ts";
import { frozenLabels } from "../../../policyd/cluster/name.ts";
import { CONTROLLER_LABELS } from "../../input/workload.ts";
import { workloadKeyOf } from "../../../policyd/cluster/workload_name.ts";
import type { Manifest } from "../../input/manifests.ts";

/** The fate of one object. */
export interface ObjectChange {
  readonly type: "added" | "changed" | "unchanged" | "deleted";
  readonly before: Manifest | undefined;
  readonly after: Manifest | undefined;
}

/** Objects before and after a change. */
export interface Applied {
  readonly before: readonly Manifest[];
  readonly after: readonly Manifest[];
  /** Of the objects that were given; of a workload's template for each of its pods. */
  readonly changes: readonly ObjectChange[];
  /** Names of what was to be deleted and is not there, as `NetworkPolicy shop/web`. */
  readonly missing: readonly string[];
}

/**
 * The objects as they would be after `kubectl apply`: what is given takes the place of what has its kind and name. What
 * only the cluster knows of pods and nodes stays: addresses, node and state.
 *
 * The template of a workload changes the labels and ports of those of its pods that are there, as if they had been
 * replaced one by one; new ones stand for a workload that has none.
 */
export function applyObjects(against: readonly Manifest[], given: readonly Manifest[]): Applied {
  const objects = new Map(against.map((manifest) => [nameOf(manifest.object), manifest]));
  const pods = Map.groupBy(against.filter(isPod), ({ object }) => workloadKeyOf(object));
  const templates = new Map<string, Pod>();
  const changes: ObjectChange[] = [];
  for (const manifest of given) {
    const { object } = manifest;
    const key = object.kind === "Pod" && isOfTemplate(object) ? workloadKeyOf(object) : undefined;
    if (object.kind === "Pod" && key !== undefined && pods.has(key)) {
      if (!templates.has(key)) templates.set(key, object);
      continue;
    }
    const before = objects.get(nameOf(object));
    const after = before === undefined ? manifest : { ...manifest, object: withState(object, before.object) };
    changes.push(changeOf(before, after));
    objects.set(nameOf(object), after);
  }
  for (const [key, template] of templates) {
    for (const before of pods.get(key) ?? []) {
      const after = { ...before, object: fromTemplate(before.object, template) };
      changes.push(changeOf(before, after));
      objects.set(nameOf(before.object), after);
    }
  }
  return { before: against, after: [...objects.values()], changes, missing: [] };
}

/** The objects as they would be after `kubectl delete`. @param names as `NetworkPolicy shop/web` */
export function deleteObjects(applied: Applied, names: readonly string[]): Applied {
  const objects = new Map(applied.after.map((manifest) => [nameOf(manifest.object), manifest]));
  const changes: ObjectChange[] = [];
  const missing: string[] = [];
  for (const name of new Set(names)) {
    const before = objects.get(name);
    if (before === undefined) missing.push(name);
    else changes.push({ type: "deleted", before, after: undefined });
    objects.delete(name);
  }
  return { ...applied, after: [...objects.values()], changes: [...applied.changes, ...changes], missing };
}

/** The names of everything given, and of what goes with it: the pods of workloads, all that is in a namespace. */
export function namesToDelete(against: readonly Manifest[], given: readonly Manifest[]): readonly string[] {
  const others = given.filter(({ object }) => object.kind !== "Pod" || !isOfTemplate(object));
  const templates = given.filter(isPod).filter(({ object }) => isOfTemplate(object));
  const workloads = new Set(templates.map(({ object }) => workloadKeyOf(object)));
  const namespaces = new Set(given.flatMap(({ object }) => (object.kind === "Namespace" ? [object.name] : [])));
  const owned = against.filter(({ object }) => {
    if ("namespace" in object && namespaces.has(object.namespace)) return true;
    return object.kind === "Pod" && workloads.has(workloadKeyOf(object));
  });
  return [...others, ...owned].map(({ object }) => nameOf(object));
}

function changeOf(before: Manifest | undefined, after: Manifest): ObjectChange {
  if (before === undefined) return { type: "added", before, after };
  return { type: sameText(before.object) === sameText(after.object) ? "unchanged" : "changed", before, after };
}

function sameText(object: ClusterObject): string {
  return JSON.stringify(object, (_, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
}

function isPod(manifest: Manifest): manifest is Manifest<Pod> {
  return manifest.object.kind === "Pod";
}

/** Pods that stand for a template are nowhere and have no address. */
function isOfTemplate({ controller, addresses, nodeName, uid }: Pod): boolean {
  return controller !== undefined && addresses.length === 0 && nodeName === undefined && uid === "";
}

function withState(object: ClusterObject, before: ClusterObject): ClusterObject {
  if (object.kind === "Pod" && before.kind === "Pod") return podWithState(object, before);
  if (object.kind === "Node" && before.kind === "Node") return nodeWithState(object, before);
  return object;
}

function podWithState(pod: Pod, before: Pod): Pod {
  if (pod.addresses.length > 0) return pod;
  const { addresses, phase, isTerminating, uid } = before;
  const nodeName = pod.nodeName ?? before.nodeName;
  return Object.freeze({
    ...pod,
    addresses,
    phase,
    isTerminating,
    uid,
    nodeName,
    controller: pod.controller ?? before.controller,
  });
}

function nodeWithState(node: Node, before: Node): Node {
  return node.addresses.length > 0 ? node : Object.freeze({ ...node, addresses: before.addresses });
}

/** What its controller put on a pod that runs it keeps; what it put on one that stands for the template is another's. */
function fromTemplate(pod: Pod, { labels, annotations, ports, hostNetwork }: Pod): Pod {
  const isAdded = ([key]: [string, string]): boolean => CONTROLLER_LABELS.includes(key);
  const own = Object.entries(pod.labels).filter(isAdded);
  const others = Object.entries(labels).filter((entry) => !isAdded(entry));
  return Object.freeze({ ...pod, labels: frozenLabels([...others, ...own]), annotations, ports, hostNetwork });
}
