import assert from "node:assert/strict";
import fc from "fast-check";
import type { LabelSelector } from "../../../../../objects/model.ts";
import { frozenLabels } from "../../../../../objects/name.ts";
import { isSelected } from "../../../../../policyd/policies/compile/selector.ts";
import { LabelIndex } from "../../../../../policyd/policies/live/index/label_index.ts";

const key = fc.constantFrom("app", "tier", "role");
const value = fc.constantFrom("", "a", "b", "c");
const labels = fc.dictionary(key, value).map((record) => frozenLabels(Object.entries(record)));
const selector: fc.Arbitrary<LabelSelector> = fc.record({
  matchLabels: labels,
  matchExpressions: fc.array(
    fc.record({
      key,
      operator: fc.constantFrom("In" as const, "NotIn" as const, "Exists" as const, "DoesNotExist" as const),
      values: fc.array(value, { minLength: 1, maxLength: 3 }),
    }),
    { maxLength: 2 },
  ),
});

interface Item {
  readonly selector: LabelSelector | undefined;
}

describe("policyd/policies/live/label_index", () => {
  it("POL-28: an item that selects the labels is a candidate, once, while it is in the index", () => {
    const items = fc.array(fc.record({ selector: fc.option(selector, { nil: undefined }), isGone: fc.boolean() }), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(items, labels, (given, asked) => {
        const index = new LabelIndex<Item>((item) => item.selector);
        for (const item of given) index.add(item);
        for (const item of given) if (item.isGone) index.delete(item);
        const found = [...index.candidates(asked)];
        assert.equal(new Set(found).size, found.length);
        assert.ok(found.every((item) => given.some((one) => one === item && !one.isGone)));
        for (const item of given) {
          const selects = item.selector === undefined || isSelected(item.selector, asked);
          if (selects && !item.isGone) assert.ok(found.includes(item));
        }
        for (const item of given) index.delete(item);
        assert.ok(index.isEmpty);
      }),
      { numRuns: 500 },
    );
  });

  it("POL-28: of thousands of items that each require another label, only the matching one is a candidate", () => {
    const all = Array.from({ length: 5000 }, (_, number): Item => ({
      selector: { matchLabels: frozenLabels([["app", `a${number}`]]), matchExpressions: [] },
    }));
    const index = new LabelIndex<Item>((item) => item.selector);
    for (const item of all) index.add(item);
    assert.deepEqual([...index.candidates(frozenLabels([["app", "a7"]]))], [all[7]]);
  });
});
