import assert from "node:assert/strict";
import { stolenIn, stolenMilliseconds } from "../../run/stolen.ts";

describe("test run: time that the host took", () => {
  it("is the eighth number of all processors together", () => {
    const stat = "cpu  11 2 33 4444 5 6 7 89 0 0\ncpu0 1 2 3 4 5 6 7 44 0 0\nintr 1 2 3\n";
    assert.equal(stolenIn(stat), 890);
  });

  it("is 0 where the kernel does not count it", () => {
    assert.equal(stolenIn("cpu  11 2 33 4444\n"), 0);
  });

  it("never decreases", () => {
    const before = stolenMilliseconds();
    assert.ok(stolenMilliseconds() >= before);
  });
});
