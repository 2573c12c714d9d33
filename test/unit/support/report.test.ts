import assert from "node:assert/strict";
import { countReasons, reportedTest, skipReason, summaryLine, titleWithReason } from "../../support/report.ts";

describe("test support: the report", () => {
  it("the summary has passed and failed, and skipped only when there are any", () => {
    assert.equal(summaryLine({ passes: 12, failures: 0, pending: 0 }), "12 passed, 0 failed");
    assert.equal(summaryLine({ passes: 12, failures: 1, pending: 3 }), "12 passed, 1 failed, 3 skipped");
  });

  it("the reason of a skip is in the title, only once", () => {
    const title = titleWithReason("POD-01 pings its gateway", "not root");
    assert.equal(title, "POD-01 pings its gateway [skipped: not root]");
    assert.equal(skipReason(title), "not root");
    assert.equal(titleWithReason(title, "another"), title);
    assert.equal(skipReason("to be written"), "no reason given");
  });

  it("skips are counted by reason", () => {
    const titles = ["a [skipped: not root]", "b", "c [skipped: not root]"];
    assert.deepEqual(
      [...countReasons(titles)],
      [
        ["not root", 2],
        ["no reason given", 1],
      ],
    );
  });

  it("an error that JSON cannot hold is reported", () => {
    const err = Object.assign(new Error("boom"), { index: 1n, self: {} });
    err.self = err;
    const report = reportedTest({ title: "t", fullTitle: () => "s t", file: "f", duration: 3, err });
    const { stack, ...error } = { stack: undefined, ...report.err };
    assert.deepEqual(error, { name: "Error", message: "boom" });
    assert.doesNotThrow(() => JSON.stringify([report, stack]));
  });
});
