import assert from "node:assert/strict";
import fc from "fast-check";
import { SmallSet } from "../../../../../policyd/policies/live/index/small_set.ts";

describe("policyd/policies/live/small_set", () => {
  it("a SmallSet behaves like a Set while values come and go", () => {
    const text = fc.nat(8).map((number) => (number === 0 ? "" : String(number)));
    const step = fc.record({ isAdded: fc.boolean(), value: text });
    fc.assert(
      fc.property(fc.uniqueArray(text), fc.array(step), (first, steps) => {
        const small = new SmallSet(first);
        const real = new Set(first);
        for (const { isAdded, value } of steps) {
          if (isAdded) {
            small.add(value);
            real.add(value);
          } else {
            assert.equal(small.delete(value), real.delete(value));
          }
          assert.deepEqual([[...small], small.size, small.has(value)], [[...real], real.size, isAdded]);
        }
      }),
    );
  });
});
