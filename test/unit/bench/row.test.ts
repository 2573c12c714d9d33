import assert from "node:assert/strict";
import { interleave, reaches, rowOf } from "../../bench/row.ts";

describe("rows of the benchmark", () => {
  it("a goal is reached only if the whole interval reaches it", () => {
    const estimate = { ratio: 0.7, low: 0.65, high: 0.76 };
    assert.equal(reaches(estimate, { kind: "at most", ratio: 0.75 }), false);
    assert.equal(reaches(estimate, { kind: "at most", ratio: 0.76 }), true);
    assert.equal(reaches(estimate, { kind: "at least", ratio: 0.66 }), false);
    assert.equal(reaches(estimate, { kind: "at least", ratio: 0.65 }), true);
  });

  it("interleave alternates which side goes first", () => {
    const order: string[] = [];
    const log = (who: string) => (round: number) => {
      order.push(`${who}${round}`);
      return round;
    };
    const pairs = interleave(3, log("a"), log("b"), (done) => order.push(`|${done}`));
    assert.deepEqual(order, ["a0", "b0", "|1", "b1", "a1", "|2", "a2", "b2", "|3"]);
    assert.deepEqual(pairs, [
      { ours: 0, peer: 0 },
      { ours: 1, peer: 1 },
      { ours: 2, peer: 2 },
    ]);
  });

  it("a row against a peer of another version has no ratio and no verdict", () => {
    const measured = {
      title: "ADD",
      unit: "ms",
      pairs: [{ ours: 1, peer: 4 }],
      goal: { kind: "at most", ratio: 0.75 },
    } as const;
    const row = rowOf(measured, false);
    assert.deepEqual([row.ours, row.peer, row.estimate, row.isShown], [1, 4, undefined, undefined]);
    assert.equal(rowOf(measured, true).isShown, true);
  });
});
