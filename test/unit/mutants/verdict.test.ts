import assert from "node:assert/strict";
import { judge, testsIn, witnessProblem } from "../../mutants/verdict.ts";
import type { TestResult } from "../../run/result.ts";

const TITLE = "sets hairpin";
const passed: TestResult = { fullTitle: `wiring ${TITLE}`, outcome: "passed", milliseconds: 1 };

function failed(name: string, message: string): readonly TestResult[] {
  return [{ ...passed, outcome: "failed", error: `${name}: ${message}\n    at Context.<anonymous>` }];
}

const green = [passed];
const skipped: readonly TestResult[] = [
  { ...passed, fullTitle: `wiring ${TITLE} [skipped: not root]`, outcome: "skipped" },
];
const hook: readonly TestResult[] = [
  {
    fullTitle: `wiring "before each" hook for "${TITLE}"`,
    outcome: "failed",
    milliseconds: 1,
    isHook: true,
    error: "Error: no lab",
  },
];

describe("mutants: the verdict", () => {
  it("is killed when the named test fails", () => {
    assert.deepEqual(judge(failed("AssertionError", "not equal\n\n1 !== 2"), TITLE), {
      kind: "killed",
      by: "AssertionError: not equal",
    });
  });

  it("is survived when the named test passes", () => {
    assert.deepEqual(judge(green, TITLE), { kind: "survived" });
  });

  const unclear: readonly (readonly [string, readonly TestResult[] | undefined, string])[] = [
    ["no report", undefined, "could not be loaded"],
    ["no such test", [], "did not run"],
    ["a skipped test", skipped, "skipped: not root"],
    ["a hook that failed, though its title holds the test's", hook, "did not run: Error: no lab"],
    ["a time-out", failed("Error", "Timeout of 20000ms exceeded. For async tests …"), "timed out"],
    ["a mutant that is not a program", failed("SyntaxError", "Unexpected token"), "SyntaxError: Unexpected token"],
    ["a name that does not exist", failed("ReferenceError", "x is not defined"), "ReferenceError: x is not defined"],
  ];
  for (const [name, tests, reason] of unclear) {
    it(`is unclear for ${name}`, () => {
      const verdict = judge(tests, TITLE);
      assert.ok(verdict.kind === "unclear" && verdict.reason.includes(reason), JSON.stringify(verdict));
    });
  }

  it("ignores the failure of a test with another title", () => {
    const other: TestResult = {
      ...passed,
      fullTitle: "wiring sets MTU",
      outcome: "failed",
      error: "AssertionError: x",
    };
    assert.deepEqual(judge([passed, other], TITLE), { kind: "survived" });
  });
});

describe("mutants: the named test in the unbroken tree", () => {
  it("is valid if exactly one test runs and passes", () => {
    assert.equal(witnessProblem(green, TITLE), undefined);
  });

  it("is invalid when it is missing, ambiguous, skipped or failing", () => {
    assert.match(witnessProblem(undefined, TITLE) ?? "", /could not be run/);
    assert.match(witnessProblem([], TITLE) ?? "", /0 tests of this title have run; expected one/);
    assert.match(witnessProblem([passed, passed], TITLE) ?? "", /2 tests/);
    assert.match(witnessProblem(skipped, TITLE) ?? "", /skipped: not root/);
    assert.match(witnessProblem(failed("AssertionError", "x"), TITLE) ?? "", /fails in the unbroken tree/);
  });
});

describe("mutants: the report", () => {
  it("is read if it exists and is a report", () => {
    assert.deepEqual(testsIn(JSON.stringify({ files: [{ tests: green }, { tests: [] }] })), green);
    for (const text of [undefined, "", "{}", "[]", '{"files":1}']) assert.equal(testsIn(text), undefined);
  });
});
