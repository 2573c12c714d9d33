import assert from "node:assert/strict";
import { runDemo } from "../../support/demo_result.ts";

describe("demo", function () {
  this.timeout(1800_000);

  it("demo: every cell of `npm run demo` is as expected, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assert.deepEqual([exitCode, result.isAsExpected], [0, true]);
  });
});
