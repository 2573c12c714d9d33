import { contentText } from "../../output/text.ts";
import { nameOf } from "../../../objects/gate/gate.ts";
import type { ClusterObject, Node, Pod } from "../../../objects/model.ts";
import { frozenLabels } from "../../../objects/name.ts";
import { wantedEndpoints, wantedProblem } from "../../input/service_source.ts";
import { CONTROLLER_LABELS } from "../../input/workload.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";
import type { Manifest } from "../../input/manifests.ts";

/** The effect of a change on one object. */
export interface ObjectChange {
  readonly type: "added" | "changed" | "unchanged" | "deleted";
  readonly before: Manifest | undefined;
  readonly after: Manifest | undefined;
}

/** Objects before and after a change. */
export interface Applied {
  readonly before: readonly Manifest[];
  readonly after: readonly Manifest[];
  /** The changes of the given objects; for a workload's template, one for each of its pods. */
  readonly changes: readonly ObjectChange[];
  /** Names of objects to delete that do not exist, such as `NetworkPolicy shop/web`. */
  readonly missing: readonly string[];
}

/**
 * Returns the objects as they would be after `kubectl apply`: a given object replaces the one with its kind and name.
 * Facts that only the cluster knows about pods and nodes are retained: addresses, node and state.
 *
 * A workload's template changes the labels and ports of its existing pods, as if they had been replaced one by one. For
 * a workload without pods, new ones are added that stand for the template.
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

/** Returns the objects as they would be after `kubectl delete`. @param names such as `NetworkPolicy shop/web` */
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

/** Returns the names of the given objects and their dependents: the pods of workloads, everything in a namespace. */
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
  const isSame =
    contentText(before.object) === contentText(after.object) && selectorText(before) === selectorText(after);
  return { type: isSame ? "unchanged" : "changed", before, after };
}

/** Returns the selector of a Service, which its model omits; empty for other objects. */
function selectorText({ object, source }: Manifest): string {
  if (object.kind !== "Service" || wantedProblem(source) !== undefined) return "";
  const labels = Object.entries(wantedEndpoints(source).selector ?? {}).map(([key, value]) => `${key}=${value}`);
  return labels.sort().join();
}

function isPod(manifest: Manifest): manifest is Manifest<Pod> {
  return manifest.object.kind === "Pod";
}

/** Returns whether a pod stands for a template: it has no node and no address. */
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

/** Returns a pod with its template's changes; it retains only those controller labels that it already had. */
function fromTemplate(pod: Pod, { labels, annotations, ports, hostNetwork }: Pod): Pod {
  const isAdded = ([key]: [string, string]): boolean => CONTROLLER_LABELS.includes(key);
  const own = Object.entries(pod.labels).filter(isAdded);
  const others = Object.entries(labels).filter((entry) => !isAdded(entry));
  return Object.freeze({ ...pod, labels: frozenLabels([...others, ...own]), annotations, ports, hostNetwork });
}
