import { judge } from "../../../policyd/cluster/gate.ts";
import { ClusterStore } from "../../../policyd/cluster/store.ts";

/** The objects of manifests, read through the gate. @throws Error when it refuses one */
export function storeOf(manifests: readonly object[]): ClusterStore {
  const store = new ClusterStore();
  for (const manifest of manifests) {
    const verdict = judge(manifest);
    if (verdict.type !== "accepted")
      throw new Error(verdict.type === "refused" ? verdict.problem : "none of our kinds");
    const { object } = verdict;
    store.apply([{ type: "set", kind: object.kind, key: object.key, object }]);
  }
  return store;
}
