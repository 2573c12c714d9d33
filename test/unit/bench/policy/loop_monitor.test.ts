import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { LoopMonitor } from "../../../bench/policy/loop_monitor.ts";

describe("the benchmark's monitor of the event loop", () => {
  it("finds the longest turn of the event loop, also the current one, and forgets all before a reset", async () => {
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
});
