import assert from "node:assert/strict";
import { killedBefore, sample } from "../../mutants/outcome.ts";

const ALL = ["1:1:literal", "2:1:operand", "3:1:statement"].map((id) => ({ file: "ipam/range.ts", id }));

describe("mutants: which ones are run", () => {
  it("takes as many as asked for, in their order, and the same ones for a seed", () => {
    const numbers = Array.from({ length: 100 }, (_, number) => number);
    const chosen = sample(numbers, 10, 5);
    assert.equal(chosen.length, 10);
    assert.deepEqual(
      chosen,
      [...chosen].sort((a, b) => a - b),
    );
    assert.deepEqual(sample(numbers, 10, 5), chosen);
    assert.notDeepEqual(sample(numbers, 10, 6), chosen);
    assert.deepEqual(sample(numbers, 200, 5), numbers);
  });

  it("compares with an earlier outcome: those that were killed, and the names of those that are gone", () => {
    const killed = ["ipam/range.ts:2:1:operand", "ipam/range.ts:9:1:literal"];
    assert.deepEqual(killedBefore(ALL, { killed, survived: ["ipam/range.ts:1:1:literal"] }), {
      mutations: [{ file: "ipam/range.ts", id: "2:1:operand" }],
      gone: ["ipam/range.ts:9:1:literal"],
    });
  });
});
