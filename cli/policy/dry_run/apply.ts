import { contentText } from "../../output/text.ts";
import { judge, nameOf } from "../../../objects/gate/gate.ts";
import { isObject } from "../../../objects/gate/reader.ts";
import type { Node, Pod } from "../../../objects/model.ts";
import { isPod, type Manifest, type Manifests } from "../../input/manifests.ts";
import { membersAt, at, listAt, textAt } from "../../input/raw.ts";
import { wantedEndpoints, wantedProblem } from "../../input/service_source.ts";
import { readWayObject } from "../../input/ways/read.ts";
import { type PlacedWayObject, wayObjectName } from "../../input/ways/way_object.ts";
import { rollOut } from "../../input/template_pods.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";
import { serviceKeyOf } from "../../../objects/service_key.ts";

/** The objects that a change is about: also those by which connections come in. */
export type Objects = Pick<Manifests, "manifests" | "wayObjects">;

type Placed = Manifest | PlacedWayObject;

/** The effect of a change on one object. */
export interface ObjectChange {
  readonly type: "added" | "changed" | "unchanged" | "deleted";
  readonly before: Placed | undefined;
  readonly after: Placed | undefined;
  /** The object after the change or, where it is deleted, before. */
  readonly placed: Placed;
}

/** Objects after a change. */
export interface Applied {
  readonly after: Objects;
  /** The changes of the given objects; for a workload's template, one for each of its pods. */
  readonly changes: readonly ObjectChange[];
  /** Names of objects to delete that do not exist, such as `NetworkPolicy shop/web`. */
  readonly missing: readonly string[];
}

/**
 * Returns the objects as they would be after `kubectl apply`: a given object is merged with the one of its kind and
 * name. Facts that only the cluster knows about pods and nodes are retained: addresses, node and state.
 *
 * A workload's template changes the labels and ports of its existing pods, as if they had been replaced one by one. For
 * a template that no pod shows, new ones are added that stand for it.
 */
export function applyObjects(against: Objects, given: Objects): Applied {
  const objects = byName(against);
  const changes: ObjectChange[] = [];
  const set = (before: Placed | undefined, after: Placed): void => {
    changes.push(changeOf(before, after));
    objects.set(placedName(after), after);
  };
  const templates = given.manifests.filter(isPod).filter(isOfTemplate);
  for (const placed of allOf(given).filter((one) => !isOfTemplate(one))) {
    const before = objects.get(placedName(placed));
    set(before, before === undefined ? placed : withState(placed, before));
  }
  const { changed, added, removed } = rollOut(
    against.manifests.filter(isPod).filter((one) => objects.get(placedName(one)) === one),
    templates,
  );
  for (const { before, after } of changed) set(before, after);
  for (const one of added) set(objects.get(placedName(one)), one);
  for (const one of removed) {
    changes.push({ type: "deleted", before: one, after: undefined, placed: one });
    objects.delete(placedName(one));
  }
  return { after: objectsOf(objects), changes, missing: [] };
}

/** Returns the objects as they would be after `kubectl delete`. @param names such as `NetworkPolicy shop/web` */
export function deleteObjects(applied: Applied, names: readonly string[]): Applied {
  const objects = byName(applied.after);
  const changes: ObjectChange[] = [];
  const missing: string[] = [];
  for (const name of new Set(names)) {
    const before = objects.get(name);
    if (before === undefined) missing.push(name);
    else changes.push({ type: "deleted", before, after: undefined, placed: before });
    objects.delete(name);
  }
  return { after: objectsOf(objects), changes: [...applied.changes, ...changes], missing };
}

/**
 * Returns the names of the given objects and their dependents: the pods of workloads, or words for them where there are
 * none, and everything in a namespace.
 */
export function namesToDelete(against: Objects, given: Objects): readonly string[] {
  const others = allOf(given).filter((one) => !isOfTemplate(one));
  const templates = given.manifests.filter(isPod).filter(isOfTemplate);
  const workloads = new Set(templates.map(({ object }) => workloadKeyOf(object)));
  const namespaces = new Set(
    given.manifests.flatMap(({ object }) => (object.kind === "Namespace" ? [object.name] : [])),
  );
  const owned = allOf(against).filter(({ object }) => {
    if ("namespace" in object && namespaces.has(object.namespace)) return true;
    return object.kind === "Pod" && workloads.has(workloadKeyOf(object));
  });
  const there = new Set(owned.flatMap(({ object }) => (object.kind === "Pod" ? workloadKeyOf(object) : [])));
  const without = templates.flatMap(({ object, workload }) => {
    return workload === undefined || there.has(workloadKeyOf(object)) ? [] : `a pod of ${workload}`;
  });
  return [...[...others, ...owned].map(placedName), ...without];
}

function allOf({ manifests, wayObjects }: Objects): readonly Placed[] {
  return [...manifests, ...wayObjects];
}

function byName(objects: Objects): Map<string, Placed> {
  return new Map(allOf(objects).map((placed) => [placedName(placed), placed]));
}

function objectsOf(objects: ReadonlyMap<string, Placed>): Objects {
  const all = [...objects.values()];
  return {
    manifests: all.filter(isManifest),
    wayObjects: all.filter((one): one is PlacedWayObject => !isManifest(one)),
  };
}

/** Returns whether policies are about an object, and not only the ways by which connections come in. */
export function isManifest(placed: Placed): placed is Manifest {
  return "key" in placed.object;
}

/** Returns the name of an object for people, such as `Ingress shop/web`. */
export function placedName({ object }: Placed): string {
  return "key" in object ? nameOf(object) : wayObjectName(object);
}

function changeOf(before: Placed | undefined, after: Placed): ObjectChange {
  if (before === undefined) return { type: "added", before, after, placed: after };
  const isSame = shownText(before) === shownText(after);
  return { type: isSame ? "unchanged" : "changed", before, after, placed: after };
}

/** Returns a text of what counts of an object: also its host ports, and its selector. */
function shownText(placed: Placed): string {
  const hostPorts = "hostPorts" in placed ? placed.hostPorts : [];
  return contentText([placed.object, hostPorts, selectorText(placed)]);
}

/** Returns the selector of a Service, which its model omits; empty for other objects. */
function selectorText({ object, source }: Placed): string {
  if (object.kind !== "Service" || wantedProblem(source) !== undefined) return "";
  const labels = Object.entries(wantedEndpoints(source).selector ?? {}).map(([key, value]) => `${key}=${value}`);
  return labels.sort().join();
}

/** Returns whether an object is a pod that stands for a template. */
function isOfTemplate(placed: Placed): boolean {
  return "workload" in placed && placed.workload !== undefined;
}

/** Returns an object as `kubectl apply` leaves it, with what only the cluster knows about it. */
function withState(placed: Placed, there: Placed): Placed {
  const [{ object }, { object: before }] = [placed, there];
  if (object.kind === "Pod" && before.kind === "Pod") return { ...placed, object: podWithState(object, before) };
  if (object.kind === "Node" && before.kind === "Node") return { ...placed, object: nodeWithState(object, before) };
  if (placed.source === undefined) return placed;
  const source = mergedSource(liveSource(there), there.source, placed.source);
  if (!isManifest(placed)) {
    const read = readWayObject(source);
    return typeof read === "string" ? placed : { ...placed, object: read, source };
  }
  const verdict = judge(source);
  return verdict.type === "accepted" ? { ...placed, object: verdict.object, source } : placed;
}

/** Returns an object as the API server has it, with the directions of a policy that names none. */
function liveSource({ object, source }: Placed): unknown {
  if (object.kind !== "NetworkPolicy" || !isObject(source)) return source;
  return { ...source, spec: { ...Object.fromEntries(membersAt(source, "spec")), policyTypes: object.policyTypes } };
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

/**
 * Returns the objects after a change without the EndpointSlices that the cluster would write again, so that the
 * endpoints follow from the selectors: those of Services that change, and those in namespaces whose pods change.
 */
export function withoutOldSlices({ after, changes }: Applied): readonly Manifest[] {
  const objects = changes.flatMap(({ type, before, after: young }) =>
    [before, young].flatMap((one) => (one === undefined ? [] : [{ type, object: one.object }])),
  );
  const namespaces = new Set(
    objects.flatMap(({ type, object }) => (object.kind === "Pod" && type !== "unchanged" ? [object.namespace] : [])),
  );
  const services = new Set(
    objects.flatMap(({ type, object }) => (object.kind === "Service" && type !== "unchanged" ? [object.key] : [])),
  );
  const given = new Set(objects.flatMap(({ object }) => (object.kind === "EndpointSlice" ? [nameOf(object)] : [])));
  const withSelector = new Set(
    after.manifests.flatMap(({ object, source }) =>
      object.kind === "Service" && hasSelector(source) ? [object.key] : [],
    ),
  );
  return after.manifests.filter(({ object }) => {
    if (object.kind !== "EndpointSlice" || given.has(nameOf(object))) return true;
    const service = serviceKeyOf(object) ?? "";
    return !withSelector.has(service) || !(namespaces.has(object.namespace) || services.has(service));
  });
}

function hasSelector(service: unknown): boolean {
  return wantedProblem(service) === undefined && wantedEndpoints(service).selector !== undefined;
}

/** Where `kubectl apply` keeps what it was given before. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** Fields that the API server sets and keeps where nobody gives them. */
const SERVER_SET = [
  "policyTypes",
  "clusterIP",
  "clusterIPs",
  "healthCheckNodePort",
  "ipFamilies",
  "ipFamilyPolicy",
  "ingressClassName",
];

/**
 * Returns an object as `kubectl apply` leaves it: what the given one says, and what the live one has beyond the one that
 * was applied before. Lists are replaced as a whole, except for the node ports of a Service.
 *
 * @param live the source of an object with what only the server has set
 */
function mergedSource(live: unknown, source: unknown, given: unknown): unknown {
  const result = merged(live, lastApplied(source), given);
  if (!isObject(result) || textAt(given, "kind") !== "Service") return result;
  // The API server gives up the addresses and ports of another type, or allocates new ones.
  if (typeOf(live) !== typeOf(given)) return { ...result, spec: at(given, "spec") };
  const keyOf = (port: unknown): string => `${String(at(port, "port"))}/${textAt(port, "protocol") ?? "TCP"}`;
  const nodePorts = new Map(listAt(live, "spec", "ports").map((port) => [keyOf(port), at(port, "nodePort")]));
  const ports = listAt(given, "spec", "ports").map((port) =>
    isObject(port) ? { ...port, nodePort: at(port, "nodePort") ?? nodePorts.get(keyOf(port)) } : port,
  );
  return { ...result, spec: { ...Object.fromEntries(membersAt(result, "spec")), ports } };
}

function typeOf(service: unknown): string {
  return textAt(service, "spec", "type") || "ClusterIP";
}

/**
 * Returns what was applied before: for an object of a file, the object. Where a cluster's object does not say it, its
 * spec counts as applied, so that no change is missed, and its labels and annotations do not: others may set these.
 */
function lastApplied(live: unknown): unknown {
  const text = textAt(live, "metadata", "annotations", LAST_APPLIED);
  if (text !== undefined) {
    try {
      return JSON.parse(text);
    } catch {
      // Somebody has edited it.
    }
  }
  const spec = at(live, "spec");
  if (textAt(live, "metadata", "uid") === undefined) return { metadata: at(live, "metadata"), spec };
  return {
    spec: isObject(spec) ? Object.fromEntries(Object.entries(spec).filter(([key]) => !SERVER_SET.includes(key))) : spec,
  };
}

function merged(live: unknown, last: unknown, given: unknown): unknown {
  if (!isObject(live) || !isObject(given)) return given;
  const kept = Object.entries(live).filter(([key]) => at(last, key) === undefined);
  const said = Object.entries(given).map(([key, value]) => [key, merged(live[key], at(last, key), value)] as const);
  return { ...Object.fromEntries(kept), ...Object.fromEntries(said) };
}
