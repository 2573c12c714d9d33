import assert from "node:assert/strict";
import { type Priority, WorkQueue } from "../../../../../policyd/policies/live/work_queue.ts";

function take<T>(queue: WorkQueue<T>, priority: Priority): T | undefined {
  const taken: T[] = [];
  queue.takeAnd(priority, (item) => taken.push(item));
  return taken[0];
}

describe("policyd/policies/live/work_queue", () => {
  it("the queue gives the oldest item of a priority, and each item once", () => {
    const queue = new WorkQueue<string>(() => "");
    for (const item of ["a", "b", "c", "a"]) queue.add(item);
    queue.add("d", "urgent");
    queue.add("b", "urgent");
    queue.add("d");
    assert.equal(queue.size, 4);
    assert.deepEqual([take(queue, "urgent"), take(queue, "urgent"), take(queue, "urgent")], ["d", "b", undefined]);
    assert.equal(take(queue, "usual"), "a");
    queue.add("a");
    queue.delete("c");
    assert.deepEqual([take(queue, "usual"), take(queue, "usual"), queue.size], ["a", undefined, 0]);
  });

  it("the queue gives items that come while it is emptied and afterwards", () => {
    const queue = new WorkQueue<number>(() => "");
    const taken: (number | undefined)[] = [];
    for (let number = 0; number < 5; number++) {
      queue.add(2 * number);
      queue.add(2 * number + 1);
      taken.push(take(queue, "usual"));
    }
    while (queue.size > 0) taken.push(take(queue, "usual"));
    assert.deepEqual(taken, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    queue.add(10);
    assert.equal(take(queue, "usual"), 10);
  });

  it("SHARE-10: a work queue takes one item of each group in turn, so no group waits for all items of another", () => {
    const queue = new WorkQueue<string>((item) => item.slice(0, 1));
    for (const item of ["a1", "a2", "a3", "a4", "b1"]) queue.add(item);
    assert.equal(take(queue, "usual"), "a1");
    queue.add("c1");
    queue.add("c2");
    queue.delete("c2");
    queue.delete("a3");
    assert.equal(queue.size, 4);
    assert.deepEqual(
      Array.from({ length: 5 }, () => take(queue, "usual")),
      ["b1", "a2", "c1", "a4", undefined],
    );
  });
});
