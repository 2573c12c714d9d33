import type { ClusterObject, ObjectChange } from "../../objects/model.ts";
import { ClusterStore } from "../../objects/store.ts";

/** Returns objects in a store, as the evaluators take them. */
export function storeOf(objects: Iterable<ClusterObject>): ClusterStore {
  const store = new ClusterStore();
  store.apply(changesTo([...objects]));
  return store;
}

/** Returns the changes that add objects, as the daemon's parts take them. */
export function changesTo(objects: readonly ClusterObject[]): readonly ObjectChange[] {
  return objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object }));
}
