import assert from "node:assert/strict";
import fc from "fast-check";
import { pauseAfter } from "../../../../../policyd/policies/cuts/pause.ts";

describe("policy/cuts: the pause after a round", () => {
  it("POL-84: rounds take an eighth of a processor, or shorter pauses where a change would wait too long", () => {
    const pauses = [0, 1, 9, 12, 20, 30].map(pauseAfter);
    assert.deepEqual(
      pauses.map(({ others }) => others),
      [0, 7, 63, 76, 60, 40],
    );
    assert.ok(pauses.every(({ others, again }) => others === again));
  });

  it("POL-84: a change is checked within 100 ms, including the round before, if rounds take a third of that", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 33 }), (taken) => {
        assert.ok(taken + pauseAfter(taken).again + taken <= 100);
      }),
    );
  });

  it("POL-84: after a longer round the same connections wait seven times as long, up to a second, and others as long as it took", () => {
    assert.deepEqual([40, 120, 400, 5000].map(pauseAfter), [
      { others: 40, again: 280 },
      { others: 120, again: 840 },
      { others: 400, again: 1000 },
      { others: 5000, again: 5000 },
    ]);
  });
});
