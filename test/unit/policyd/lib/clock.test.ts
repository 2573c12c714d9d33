import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { realClock } from "../../../../policyd/lib/clock.ts";

/** Runs an action with the machine's wall clock set forward by this many milliseconds, or back if negative. */
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
  it("DAEMON-09: setting the wall clock changes the time of day, and not the time that has passed", () => {
    for (const milliseconds of [7_200_000, -7_200_000]) {
      const [now, time] = [realClock.now(), realClock.time()];
      withWallClock(milliseconds, () => {
        const passed = realClock.now() - now;
        assert.ok(passed >= 0 && passed < 60_000, `${passed}`);
        assert.ok(Math.abs(realClock.time() - time - milliseconds) < 60_000);
      });
    }
  });

  it("DAEMON-09: an action that is due in more than 24 days does not run at once", async () => {
    let isDone = false;
    const cancel = realClock.after(2 ** 31, () => {
      isDone = true;
    });
    await pause(30);
    cancel();
    assert.ok(!isDone);
  });
});
