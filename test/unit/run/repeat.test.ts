import assert from "node:assert/strict";
import { filesToRepeat, withSecondRun } from "../../run/repeat.ts";
import type { Report, ReportedFailure } from "../../support/report.ts";

const test = (file: string | undefined, title: string) => ({ title, fullTitle: title, file, err: {} });

function reportOf(passes: readonly string[], failures: readonly ReportedFailure[], furtherFailures = 0): Report {
  const passed = passes.map((title) => test(title.split(" ")[0], title));
  const tests = [...passed, ...failures];
  return { stats: { start: "then" }, tests, passes: passed, pending: [], failures, furtherFailures };
}

const failure = (file: string | undefined, title: string, stolenMilliseconds?: number): ReportedFailure => ({
  ...test(file, title),
  stolenMilliseconds,
});

describe("test run: failures while the host had the processors", () => {
  it("are repeated by files, except files with other failures", () => {
    const report = reportOf(
      ["a 1"],
      [failure("a", "a 2", 100), failure("b", "b 1", 5000), failure("b", "b 2", 99), failure("a", "a 3", 400)],
    );
    assert.deepEqual(filesToRepeat(report), ["a"]);
  });

  it("are not repeated without a known file or a known stolen time", () => {
    assert.deepEqual(filesToRepeat(reportOf([], [failure(undefined, "hook", 500), failure("b", "b 1")])), []);
  });

  it("are replaced by the second run, and other results stay", () => {
    const first = reportOf(["a 1", "b 1"], [failure("a", "a 2", 100), failure("c", "c 1", 0)], 1);
    const second = reportOf(["a 1", "a 2"], [failure("a", "a 3", 300)]);
    const merged = withSecondRun(first, second, ["a"]);
    assert.deepEqual(
      merged.passes.map(({ title }) => title),
      ["b 1", "a 1", "a 2"],
    );
    assert.deepEqual(
      merged.failures.map(({ title }) => title),
      ["c 1", "a 3"],
    );
    assert.equal(merged.furtherFailures, 1);
    const third = withSecondRun(merged, reportOf(["a 1", "a 2", "a 3"], []), ["a"]);
    assert.deepEqual(
      [merged, third].map(({ repeated }) => repeated?.map(({ title }) => title)),
      [["a 2"], ["a 2", "a 3"]],
      "the first failures stay listed",
    );
    assert.deepEqual(merged.stats, { start: "then", tests: 5, passes: 3, pending: 0, failures: 2 });
  });
});
