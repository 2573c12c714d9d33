import assert from "node:assert/strict";
import os from "node:os";
import { runDemo } from "../../support/demo_result.ts";

describe("demo", function () {
  this.timeout(1800_000);

  it("demo: every cell of `npm run demo` is as expected, and nothing is left", function () {
    // The demo confines its daemons by mount_setattr(2), which Linux has since 5.12.
    const [major = 0, minor = 0] = os.release().split(".").map(Number);
    if (major === 5 && minor < 12) this.skip();
    const { exitCode, result } = runDemo();
    assert.deepEqual([exitCode, result.isAsExpected], [0, true]);
  });
});
