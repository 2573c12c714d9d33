import assert from "node:assert/strict";
import fc from "fast-check";
import { pauseAfter } from "../../../../../policyd/policy/cuts/pause.ts";

describe("policy/cuts: the pause after a round", () => {
  it("POL-84: rounds take an eighth of a processor, or less time than a change may wait", () => {
    assert.deepEqual([0, 1, 9, 12, 20, 30].map(pauseAfter), [0, 7, 63, 76, 60, 40]);
  });

  it("POL-84: with the round before it and its own, a change is judged in 100 ms where rounds take a third of that", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 33 }), (taken) => assert.ok(taken + pauseAfter(taken) + taken <= 100)),
    );
  });

  it("POL-84: no pause is shorter than its round up to 100 ms, and none is longer", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60_000 }), (taken) => {
        assert.ok(pauseAfter(taken) >= Math.min(taken, 100));
        assert.ok(pauseAfter(taken) <= 100);
      }),
    );
  });
});
