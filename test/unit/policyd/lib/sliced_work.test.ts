import assert from "node:assert/strict";
import { each, eachInTurns, inTurns } from "../../../../policyd/lib/sliced_work.ts";

describe("policyd/lib/sliced_work", () => {
  it("values in turns are all taken, and a timer runs before the last one", async () => {
    let hasRun = false;
    setTimeout(() => (hasRun = true), 1);
    let count = 0;
    await eachInTurns(Array.from({ length: 30 }), () => {
      count++;
      for (const end = performance.now() + 1; performance.now() < end;);
    });
    assert.deepEqual([hasRun, count], [true, 30]);
  });

  it("work in turns throws what the work throws", async () => {
    const failing = each([1], () => {
      throw new RangeError("one");
    });
    await assert.rejects(inTurns(failing), RangeError);
  });
});
