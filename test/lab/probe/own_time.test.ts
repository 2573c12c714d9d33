import assert from "node:assert/strict";
import { ownTime, waitedIn } from "./own_time.ts";

describe("the lab's time without waits for a processor", () => {
  it("reads the second figure of schedstat in milliseconds, and none where the kernel counts none", () => {
    assert.equal(waitedIn("180000000 2500000 17\n"), 2.5);
    assert.equal(waitedIn("\n"), 0);
  });

  it("goes on while the process runs, and never faster than the clock", () => {
    const wall = performance.now();
    const own = ownTime();
    while (ownTime() < own + 5);
    assert.ok(performance.now() - wall >= 5);
  });
});
