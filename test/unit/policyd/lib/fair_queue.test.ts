import assert from "node:assert/strict";
import { FairQueue } from "../../../../policyd/lib/fair_queue.ts";

describe("policyd/lib: the fair queue", () => {
  it("groups keep the order of their turns while some are passed over, emptied and come again", () => {
    const queue = new FairQueue<string>(10);
    for (const item of ["a1", "a2", "a3", "b1", "c1", "c2"]) queue.add(item.charAt(0), item);
    assert.equal(queue.take(), "a1");
    assert.equal(
      queue.take((group) => group !== "b"),
      "c1",
    );
    queue.delete("b", "b1");
    queue.add("b", "b2");
    const rest = Array.from({ length: 5 }, () => queue.take());
    assert.deepEqual(rest, ["a2", "c2", "b2", "a3", undefined]);
    queue.add("a", "a4");
    queue.clear();
    assert.equal(queue.take(), undefined);
    queue.add("a", "a5");
    assert.equal(queue.take(), "a5");
  });
});
