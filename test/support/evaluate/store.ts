import { judge } from "../../../objects/gate/gate.ts";
import { ClusterStore } from "../../../objects/store.ts";

/** Returns a store of the objects in manifests, read through the gate. @throws Error when the gate refuses one */
export function storeOf(manifests: readonly object[]): ClusterStore {
  const store = new ClusterStore();
  for (const manifest of manifests) {
    const verdict = judge(manifest);
    if (verdict.type !== "accepted")
      throw new Error(verdict.type === "refused" ? verdict.problem : "Drawbridge does not read objects of this kind");
    const { object } = verdict;
    store.apply([{ type: "set", kind: object.kind, key: object.key, object }]);
  }
  return store;
}
