import assert from "node:assert/strict";
import {
  countReasons,
  type FileResult,
  skipReason,
  summaryLine,
  type TestResult,
  titleWithReason,
  totalsOf,
} from "../../run/result.ts";

function fileWith(tests: readonly Omit<TestResult, "milliseconds">[], problems: readonly string[] = []): FileResult {
  return {
    file: "a.test.ts",
    tests: tests.map((test) => ({ ...test, milliseconds: 1 })),
    problems,
    longForms: [],
    milliseconds: 1,
    processorMilliseconds: 1,
    megabytes: 1,
  };
}

describe("test run: results", () => {
  it("the summary has passed and failed, and skipped only when there are any", () => {
    assert.equal(summaryLine({ passed: 12, failed: 0, skipped: 0 }), "12 passed, 0 failed");
    assert.equal(summaryLine({ passed: 12, failed: 1, skipped: 3 }), "12 passed, 1 failed, 3 skipped");
  });

  it("a problem of a file and one of the run count as failures", () => {
    const files = [
      fileWith([
        { fullTitle: "a", outcome: "passed" },
        { fullTitle: "b", outcome: "failed" },
      ]),
      fileWith([{ fullTitle: "c", outcome: "skipped" }], ["it left a process running"]),
    ];
    assert.deepEqual(totalsOf(files, ["the machine has changed"]), { passed: 1, failed: 3, skipped: 1 });
  });

  it("the reason of a skip is in the title, only once", () => {
    const title = titleWithReason("POD-01 pings its gateway", "not root");
    assert.equal(title, "POD-01 pings its gateway [skipped: not root]");
    assert.equal(skipReason(title), "not root");
    assert.equal(titleWithReason(title, "another"), title);
    assert.equal(skipReason("to be written"), "no reason given");
  });

  it("skips are counted by reason", () => {
    const skipped = (fullTitle: string) => ({ fullTitle, outcome: "skipped" }) as const;
    const files = [
      fileWith([skipped("a [skipped: not root]"), skipped("b")]),
      fileWith([skipped("c [skipped: not root]"), { fullTitle: "d [skipped: not root]", outcome: "passed" }]),
    ];
    const reasons = [...countReasons(files)];
    assert.deepEqual(reasons, [
      ["not root", 2],
      ["no reason given", 1],
    ]);
  });
});
