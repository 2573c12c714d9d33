import assert from "node:assert/strict";
import { compareBehaviours } from "../../run/proven.ts";
import type { TestResult } from "../../run/result.ts";

function problemsOf(promised: readonly string[], tests: readonly (readonly [string, TestResult["outcome"]])[]) {
  const results = tests.map(([fullTitle, outcome]) => ({ fullTitle, outcome, milliseconds: 1 }));
  const file = {
    file: "a.test.ts",
    tests: results,
    problems: [],
    longForms: [],
    milliseconds: 1,
    processorMilliseconds: 1,
    megabytes: 1,
  };
  return compareBehaviours(new Set(promised), [file]);
}

describe("test run: promises and their tests", () => {
  it("a promise is proven by a passed test with its ID, and by a long form that only test:full runs", () => {
    const problems = problemsOf(
      ["POD-01", "P5", "B18"],
      [
        ["a pod POD-01: pings", "passed"],
        ["P5 B18: waits [skipped: it takes half a minute: `npm run test:full` does]", "skipped"],
      ],
    );
    assert.deepEqual(problems, []);
  });

  it("a promise whose tests failed, were skipped for another reason or do not exist is a problem", () => {
    const problems = problemsOf(
      ["POD-01", "POD-02", "POD-03"],
      [
        ["POD-01: fails", "failed"],
        ["POD-02: needs root [skipped: not root]", "skipped"],
      ],
    );
    assert.deepEqual(
      problems,
      ["POD-01", "POD-02", "POD-03"].map((id) => `no test of the promise ${id} has passed`),
    );
  });

  it("an ID in a title that is not a promise is a problem, and a part of a longer word does not count", () => {
    assert.deepEqual(problemsOf([], [["a MAC address reads 0A-58-F4-01", "passed"]]), []);
    assert.deepEqual(problemsOf([], [["POD-99: is unknown", "passed"]]), [
      "a test names POD-99, which docs/behaviours.md lacks",
    ]);
  });
});
