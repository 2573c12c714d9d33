import assert from "node:assert/strict";
import { judge, parseReport, type Report, witnessProblem } from "../../mutants/verdict.ts";

const TITLE = "sets hairpin";
const passed = { fullTitle: `wiring ${TITLE}`, err: {} };

function failed(name: string, message: string): Report {
  const test = { fullTitle: passed.fullTitle, err: { name, message } };
  return { tests: [test], passes: [], pending: [], failures: [test] };
}

const green: Report = { tests: [passed], passes: [passed], pending: [], failures: [] };
const skipped: Report = { tests: [passed], passes: [], pending: [{ ...passed, reason: "not root" }], failures: [] };
const none: Report = { tests: [], passes: [], pending: [], failures: [] };
const hook: Report = {
  ...none,
  failures: [{ fullTitle: `wiring "before each" hook for "${TITLE}"`, err: { name: "Error", message: "no lab" } }],
};

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

  const unclear: readonly (readonly [string, Report | undefined, string])[] = [
    ["no report", undefined, "could not be loaded"],
    ["no such test", none, "did not run"],
    ["a skipped test", skipped, "skipped: not root"],
    ["a hook that failed, though its title holds the test's", hook, "did not run: Error: no lab"],
    ["a time-out", failed("Error", "Timeout of 20000ms exceeded. For async tests …"), "timed out"],
    ["a mutant that is not a program", failed("SyntaxError", "Unexpected token"), "SyntaxError: Unexpected token"],
    ["a name that does not exist", failed("ReferenceError", "x is not defined"), "ReferenceError: x is not defined"],
  ];
  for (const [name, report, reason] of unclear) {
    it(`is unclear for ${name}`, () => {
      const verdict = judge(report, TITLE);
      assert.ok(verdict.kind === "unclear" && verdict.reason.includes(reason), JSON.stringify(verdict));
    });
  }

  it("ignores the failure of a test with another title", () => {
    const other = { fullTitle: "wiring sets MTU", err: { name: "AssertionError", message: "x" } };
    assert.deepEqual(judge({ tests: [passed, other], passes: [passed], pending: [], failures: [other] }, TITLE), {
      kind: "survived",
    });
  });
});

describe("mutants: the named test in the unbroken tree", () => {
  it("is valid if exactly one test runs and passes", () => {
    assert.equal(witnessProblem(green, TITLE), undefined);
  });

  it("is invalid when it is missing, ambiguous, skipped or failing", () => {
    assert.match(witnessProblem(undefined, TITLE) ?? "", /could not be run/);
    assert.match(witnessProblem(none, TITLE) ?? "", /0 tests of this title have run; expected one/);
    assert.match(witnessProblem({ ...green, tests: [passed, passed] }, TITLE) ?? "", /2 tests/);
    assert.match(witnessProblem(skipped, TITLE) ?? "", /skipped: not root/);
    assert.match(witnessProblem(failed("AssertionError", "x"), TITLE) ?? "", /fails in the unbroken tree/);
  });
});

describe("mutants: the report", () => {
  it("is read if it exists and is valid", () => {
    assert.deepEqual(parseReport(JSON.stringify({ ...green, stats: {} })), green);
    for (const text of [undefined, "", "{}", "[]", '{"tests":1}']) assert.equal(parseReport(text), undefined);
  });
});
