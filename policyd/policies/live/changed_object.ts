import type { ClusterObject, Kind, ObjectChange } from "../../../objects/model.ts";

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
