import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { FakeClock, realClock } from "../../../policyd/clock.ts";

/** Does something while the machine's wall clock is set on by so many milliseconds, or back. */
function withWallClock(milliseconds: number, action: () => void): void {
  const own = Object.getOwnPropertyDescriptor(Date, "now") ?? assert.fail();
  const time = Date.now() + milliseconds;
  Object.defineProperty(Date, "now", { ...own, value: () => time });
  try {
    action();
  } finally {
    Object.defineProperty(Date, "now", own);
  }
}

describe("policyd/clock", () => {
  it("DAEMON-09: a wall clock that is set changes the time of day and not how much time has passed", () => {
    for (const milliseconds of [7_200_000, -7_200_000]) {
      const [now, time] = [realClock.now(), realClock.time()];
      withWallClock(milliseconds, () => {
        const passed = realClock.now() - now;
        assert.ok(passed >= 0 && passed < 60_000, `${passed}`);
        assert.ok(Math.abs(realClock.time() - time - milliseconds) < 60_000);
      });
    }
  });

  it("DAEMON-09: what is to come in more than 24 days does not come at once", async () => {
    let isDone = false;
    const cancel = realClock.after(2 ** 31, () => {
      isDone = true;
    });
    await pause(30);
    cancel();
    assert.ok(!isDone);
  });

  it("DAEMON-09: what waits by a fake clock does not notice that its wall clock is set", () => {
    const clock = new FakeClock();
    const [now, time] = [clock.now(), clock.time()];
    let isDone = false;
    clock.after(100, () => {
      isDone = true;
    });
    clock.set(-7_200_000);
    assert.deepEqual([clock.now() - now, clock.time() - time], [0, -7_200_000]);
    clock.pass(99);
    assert.ok(!isDone);
    clock.pass(1);
    assert.ok(isDone);
    assert.deepEqual([clock.now() - now, clock.time() - time], [100, -7_199_900]);
  });
});
