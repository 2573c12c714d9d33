import assert from "node:assert/strict";
import type { LabelRequirement } from "../../../../../objects/model.ts";
import type { PodGroup } from "../../../../../policyd/policies/compile/profile.ts";
import { isSelected } from "../../../../../policyd/policies/compile/selector.ts";
import { GroupIndex } from "../../../../../policyd/policies/live/index/group_index.ts";

/** Ten groups of pods of namespace "a" that meet the requirements for a key of the group. */
function groupsOf(requirements: (key: string) => readonly LabelRequirement[]): readonly PodGroup[] {
  return Array.from({ length: 10 }, (_, group) => {
    const podSelector = { matchLabels: {}, matchExpressions: requirements(`k${group}`) };
    const key = JSON.stringify([group, podSelector]);
    return { type: "pods", key, namespace: "a", namespaceSelector: undefined, podSelector };
  });
}

function has(key: string, ...values: readonly string[]): LabelRequirement {
  return { key, operator: values.length > 0 ? "In" : "Exists", values };
}

function lacks(key: string): LabelRequirement {
  return { key, operator: "DoesNotExist", values: [] };
}

describe("policyd/policies/live: the pods of groups", () => {
  it("POL-93 SHARE-08: groups whose selectors would select too many pods, or be checked too often, get no pods at all", () => {
    const index = new GroupIndex();
    const pods = Array.from({ length: 100 }, (_, pod) => index.add(`pod${pod}`, "a", { pod: String(pod) }));
    const [all, none] = [groupsOf((key) => [lacks(key)]), groupsOf(() => [lacks("pod")])];
    assert.deepEqual([index.activate(all, 999), index.activate(none, 249)], [undefined, undefined]);
    assert.ok([...all, ...none].every(({ key }) => !index.isComplete(key)));
    assert.ok(pods.every(({ groups: own }) => own.size === 0));
    assert.deepEqual([index.activate(all, 1000), index.activate(none, 250)], [1000, 0]);
  });

  const DEMANDS: readonly (readonly [title: string, checks: number, (key: string) => readonly LabelRequirement[]])[] = [
    ["a key that no pod has", 0, (key) => [has(key)]],
    ["a label that all pods have, and a key that none has", 1, (key) => [has("app", "web"), has(key)]],
    ["a key that all pods have, and one of two labels that none has", 1, (key) => [has("app"), has(key, "x", "y")]],
    ["a label that one pod has", 1, (key) => [has("pod", key.slice(1))]],
  ];
  for (const [title, checks, requirements] of DEMANDS) {
    it(`SHARE-08: of ten selectors that demand ${title}, each of 100 pods is checked for ${checks} at most`, () => {
      const index = new GroupIndex();
      for (let pod = 0; pod < 100; pod++) index.add(`pod${pod}`, "a", { app: "web", pod: `${pod + 5}` });
      const groups = groupsOf(requirements);
      assert.notEqual(index.activate(groups, (100 * checks) / 4), undefined);
      // Groups that are completed again stay where they are indexed.
      assert.notEqual(index.activate(groups, (100 * checks) / 4), undefined);
      const labels = { app: "web", pod: "7", k0: "x", k1: "y", k2: "z" };
      const selecting = groups.filter(({ podSelector }) => podSelector && isSelected(podSelector, labels));
      assert.deepEqual([...index.add("new", "a", labels).groups].sort(), selecting.map(({ key }) => key).sort());
      for (const group of groups) index.deactivate(group);
      assert.equal(index.add("later", "a", { ...labels, is: "later" }).groups.size, 0);
    });
  }
});
