import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { inTurn } from "../../../bench/policy/in_turn.ts";
import { LoopMonitor } from "../../../bench/policy/loop_monitor.ts";
import { DEFAULT_PLAN, ofSize, QUICK_PLAN } from "../../../bench/policy/plan.ts";
import { compared } from "../../../bench/services/row.ts";

describe("the policy benchmark's measuring", () => {
  it("inTurn alternates, and begins nothing before the previous step has ended", async () => {
    const steps: string[] = [];
    const step =
      (name: string) =>
      async (round: number): Promise<string> => {
        steps.push(`${name}${round} begins`);
        await wait(1);
        steps.push(`${name}${round} ends`);
        return `${name}${round}`;
      };
    const pairs = await inTurn(2, step("ours"), step("peer"));
    assert.deepEqual(pairs, [
      { ours: "ours0", peer: "peer0" },
      { ours: "ours1", peer: "peer1" },
    ]);
    const order = ["ours0", "peer0", "peer1", "ours1"];
    assert.deepEqual(
      steps,
      order.flatMap((name) => [`${name} begins`, `${name} ends`]),
    );
  });

  it("the monitor finds the longest turn of the event loop, also the current one, and forgets all before a reset", async () => {
    let now = 0;
    let times = { processor: 0, waited: 0 };
    const monitor = new LoopMonitor(
      () => now,
      () => times,
    );
    /** Simulates a turn, after which the monitor measures. */
    const turn = async (milliseconds: number, processor: number, waited: number): Promise<void> => {
      now += milliseconds;
      times = { processor: times.processor + processor, waited: times.waited + waited };
      await wait(5);
    };
    await turn(40, 40, 0);
    await turn(10, 10, 0);
    monitor.reset();
    await turn(15, 12, 3);
    await turn(20, 4, 16);
    now += 17;
    assert.deepEqual(monitor.stop(), { longestTurn: 20, longestWaited: 16, longestProcessor: 12 });
    const other = new LoopMonitor(
      () => now,
      () => times,
    );
    await turn(5, 0, 0);
    now += 30;
    assert.equal(other.stop().longestTurn, 30);
  });

  it("a size option sets the policies of both clusters, and the pods of the large one only", () => {
    const { large, small } = ofSize(DEFAULT_PLAN, { pods: 500, policies: 20 });
    assert.deepEqual(
      [large, small],
      [
        { pods: 500, policies: 20 },
        { ...DEFAULT_PLAN.small, policies: 20 },
      ],
    );
    assert.deepEqual(ofSize(QUICK_PLAN, {}), QUICK_PLAN);
  });

  it('a goal "at least" is reached only if the low end of the interval reaches it', () => {
    const pairs = (ratio: number) => Array.from({ length: 9 }, () => ({ ours: ratio, peer: 1 }));
    assert.equal(compared("", "ms", "", pairs(0.96), { ratioAtLeast: 0.95 }).isReached, true);
    assert.equal(compared("", "ms", "", pairs(0.94), { ratioAtLeast: 0.95 }).isReached, false);
    const spread = [...pairs(1.2), ...pairs(0.9)];
    assert.equal(compared("", "ms", "", spread, { ratioAtLeast: 0.95 }).isReached, false);
  });
});
