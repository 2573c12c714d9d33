import assert from "node:assert/strict";
import { FakeClock } from "../../../support/fake_clock.ts";
import { keepMemoryTrimmed } from "../../../../policyd/lib/memory_trim.ts";

describe("policyd memory", () => {
  it("free memory is returned every half minute until stop", () => {
    const clock = new FakeClock();
    let times = 0;
    const stop = keepMemoryTrimmed({ trimMemory: () => ++times > 0 }, clock);
    assert.equal(times, 0);
    for (let minute = 1; minute <= 3; minute++) {
      clock.pass(30_000);
      clock.pass(30_000);
      assert.equal(times, 2 * minute);
    }
    stop();
    clock.pass(60_000);
    assert.equal(times, 6);
    assert.equal(clock.pending, 0);
  });
});
