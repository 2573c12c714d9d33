import { nameOf } from "../../../objects/gate/gate.ts";
import type { Manifest } from "../../input/manifests.ts";
import { wantedEndpoints, wantedProblem } from "../../input/service_source.ts";
import { type PlacedWayObject, wayObjectName } from "../../input/ways/way_object.ts";
import type { Applied, ObjectChange } from "./apply.ts";

/** The objects by which connections come in, before and after a change. */
export interface AppliedWays {
  readonly before: readonly PlacedWayObject[];
  readonly after: readonly PlacedWayObject[];
  readonly changes: readonly WayObjectChange[];
}

/** The effect of a change on one of them. */
export interface WayObjectChange {
  readonly type: ObjectChange["type"];
  /** `Ingress shop/web`. */
  readonly name: string;
}

/** Returns these objects as they would be after `kubectl apply`: each replaces the one of its kind and name. */
export function applyWays(against: readonly PlacedWayObject[], given: readonly PlacedWayObject[]): AppliedWays {
  const objects = byName(against);
  const changes = given.map((placed): WayObjectChange => {
    const name = wayObjectName(placed.object);
    const before = objects.get(name);
    objects.set(name, placed);
    const isSame = JSON.stringify(before?.object) === JSON.stringify(placed.object);
    return { type: before === undefined ? "added" : isSame ? "unchanged" : "changed", name };
  });
  return { before: against, after: [...objects.values()], changes };
}

/** Returns these objects as they would be after `kubectl delete`. @param names such as `Ingress shop/web` */
export function deleteWays(applied: AppliedWays, names: readonly string[]): AppliedWays {
  const objects = byName(applied.after);
  const deleted = [...new Set(names)].filter((name) => objects.delete(name));
  const changes = deleted.map((name): WayObjectChange => ({ type: "deleted", name }));
  return { ...applied, after: [...objects.values()], changes: [...applied.changes, ...changes] };
}

/** Returns the names of the given objects, and of those in given namespaces. */
export function waysToDelete(
  against: readonly PlacedWayObject[],
  given: readonly PlacedWayObject[],
  manifests: readonly Manifest[],
): readonly string[] {
  const namespaces = new Set(manifests.flatMap(({ object }) => (object.kind === "Namespace" ? [object.name] : [])));
  const within = against.filter(({ object }) => "namespace" in object && namespaces.has(object.namespace));
  return [...given, ...within].map(({ object }) => wayObjectName(object));
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
    after.flatMap(({ object, source }) => (object.kind === "Service" && hasSelector(source) ? [object.key] : [])),
  );
  return after.filter(({ object }) => {
    if (object.kind !== "EndpointSlice" || given.has(nameOf(object))) return true;
    const service = `${object.namespace}/${object.serviceName}`;
    return !withSelector.has(service) || !(namespaces.has(object.namespace) || services.has(service));
  });
}

function hasSelector(service: unknown): boolean {
  return wantedProblem(service) === undefined && wantedEndpoints(service).selector !== undefined;
}

function byName(objects: readonly PlacedWayObject[]): Map<string, PlacedWayObject> {
  return new Map(objects.map((placed) => [wayObjectName(placed.object), placed]));
}
