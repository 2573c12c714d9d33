import type { ClusterObject } from "../../objects/model.ts";
import { ClusterStore } from "../../objects/store.ts";

/** Returns objects in a store, as the evaluators take them. */
export function storeOf(objects: Iterable<ClusterObject>): ClusterStore {
  const store = new ClusterStore();
  store.apply([...objects].map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  return store;
}
