import assert from "node:assert/strict";
import fc from "fast-check";
import { pauseAfter } from "../../../../../policyd/policies/cuts/pause.ts";

describe("policy/cuts: the pause after a round", () => {
  it("POL-84: rounds take an eighth of a processor, or shorter pauses where a change would wait too long", () => {
    assert.deepEqual([0, 1, 9, 12, 20, 30].map(pauseAfter), [0, 7, 63, 76, 60, 40]);
  });

  it("POL-84: a change is checked within 100 ms, including the round before, if rounds take a third of that", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 33 }), (taken) => assert.ok(taken + pauseAfter(taken) + taken <= 100)),
    );
  });

  it("POL-84: a pause is at least as long as its round up to 100 ms, and never longer than that", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 60_000 }), (taken) => {
        assert.ok(pauseAfter(taken) >= Math.min(taken, 100));
        assert.ok(pauseAfter(taken) <= 100);
      }),
    );
  });
});
