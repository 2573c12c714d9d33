import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { compared, type ComparedGoal, found, interleave, measured, onePairInTurn } from "../../bench/row.ts";

describe("rows of the benchmark", () => {
  /** Returns nine ratios, of which four are twice as large as the others. */
  const pairs = (ratio: number) =>
    Array.from({ length: 9 }, (_, index) => ({ ours: ratio * (index < 4 ? 2 : 1), peer: 1 }));

  const goals: readonly (readonly [goal: ComparedGoal, ratio: number, isReached: boolean])[] = [
    [{ timesFaster: 10 }, 0.05, true],
    [{ timesFaster: 10 }, 0.09, false],
    [{ ratioAtMost: 2 }, 1, true],
    [{ ratioAtMost: 1.5 }, 1, false],
    [{ ratioAtLeast: 1 }, 1, true],
    [{ ratioAtLeast: 1.1 }, 1, false],
    [{ most: 1 }, 1, true],
    [{ most: 0.9 }, 1, false],
  ];
  for (const [goal, ratio, isReached] of goals) {
    it(`a goal ${JSON.stringify(goal)} is ${isReached ? "" : "not "}reached by ratios of ${ratio} to ${2 * ratio}`, () => {
      assert.equal(compared("x", "ms", "y", pairs(ratio), goal).isReached, isReached);
    });
  }

  it("a goal for values is reached only where the whole interval reaches it, and one for a number at the number", () => {
    assert.equal(measured("x", "ms", [1, 1, 3, 3], 2).isReached, false);
    assert.equal(measured("x", "ms", [1, 1, 3, 3], 3).isReached, true);
    assert.equal(found("x", "ms", 2, 2).isReached, true);
    assert.equal(found("x", "ms", 2.1, 2).isReached, false);
  });

  it("interleave alternates which side goes first", () => {
    const order: string[] = [];
    const log = (who: string) => (round: number) => {
      order.push(`${who}${round}`);
      return round;
    };
    const taken = interleave(3, log("a"), log("b"), (done) => order.push(`|${done}`));
    assert.deepEqual(order, ["a0", "b0", "|1", "b1", "a1", "|2", "a2", "b2", "|3"]);
    assert.deepEqual(
      taken,
      [0, 1, 2].map((round) => ({ ours: round, peer: round })),
    );
  });

  it("onePairInTurn alternates, and begins nothing before the previous half has ended", async () => {
    const steps: string[] = [];
    const step =
      (name: string) =>
      async (round: number): Promise<string> => {
        steps.push(`${name}${round} begins`);
        await wait(1);
        steps.push(`${name}${round} ends`);
        return `${name}${round}`;
      };
    for (const round of [0, 1]) {
      const pair = await onePairInTurn(round, step("ours"), step("peer"));
      assert.deepEqual(pair, { ours: `ours${round}`, peer: `peer${round}` });
    }
    const order = ["ours0", "peer0", "peer1", "ours1"];
    assert.deepEqual(
      steps,
      order.flatMap((name) => [`${name} begins`, `${name} ends`]),
    );
  });
});
