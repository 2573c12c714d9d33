import assert from "node:assert/strict";
import type { Expectation } from "../../cluster/suites/expectation.ts";
import { compareResults, expectationOf, readExpectation } from "../../cluster/suites/expectation.ts";
import type { TestResult } from "../../cluster/suites/result.ts";
import { readResults } from "../../cluster/suites/result.ts";
import { SUITES } from "../../cluster/suites/suites.ts";

function spec(title: string, state: string, message?: string, type = "It") {
  return {
    ContainerHierarchyTexts: ["[sig-network] Services"],
    LeafNodeType: type,
    LeafNodeText: title,
    State: state,
    RunTime: 1_500_000_000,
    ...(message === undefined ? {} : { Failure: { Message: message } }),
  };
}

function result(title: string, state: TestResult["state"], message = ""): TestResult {
  return { title, state, message, duration: 1 };
}

describe("test/cluster/suites", () => {
  describe("a report of Ginkgo", () => {
    it("gives each test with its whole title, its state, its message and its seconds", () => {
      const json = JSON.stringify([{ SpecReports: [spec("serves", "passed"), spec("drops", "failed", "timed out")] }]);
      assert.deepEqual(readResults(json), [
        { title: "[sig-network] Services drops", state: "failed", message: "timed out", duration: 1.5 },
        { title: "[sig-network] Services serves", state: "passed", message: "", duration: 1.5 },
      ]);
    });

    it("gives a test that skipped itself with its reason, and not one that focus or skip left out", () => {
      const json = JSON.stringify([
        { SpecReports: [spec("a", "skipped", "needs 3 nodes"), spec("b", "skipped"), spec("c", "pending")] },
      ]);
      assert.deepEqual(
        readResults(json).map(({ title, message }) => [title, message]),
        [["[sig-network] Services a", "needs 3 nodes"]],
      );
    });

    it("counts every other end as a failure, also that of the suite's own set-up", () => {
      const specs = ["panicked", "interrupted", "aborted", "timedout"].map((state) => spec(state, state));
      const setUp = spec("", "failed", "no nodes", "SynchronizedBeforeSuite");
      const json = JSON.stringify([{ SpecReports: [...specs, setUp] }, { SpecReports: null }]);
      assert.deepEqual(
        readResults(json).map(({ state }) => state),
        ["failed", "failed", "failed", "failed", "failed"],
      );
    });
  });

  describe("an expectation", () => {
    const known: Expectation = { passed: ["a"], skipped: { b: "one node" }, failed: { c: "a known fault" } };

    it("is fulfilled when each test ends as recorded", () => {
      assert.deepEqual(
        compareResults(known, [result("a", "passed"), result("b", "skipped"), result("c", "failed")]),
        [],
      );
    });

    it("is missed by a failure, a test that did not run, a new one, and one that passes unexpectedly", () => {
      const results = [result("a", "failed", "refused"), result("c", "passed"), result("d", "passed")];
      assert.deepEqual(compareResults(known, results), [
        { title: "a", expected: "passed", actual: "failed", message: "refused" },
        { title: "b", expected: "skipped", actual: "nothing", message: "" },
        { title: "c", expected: "failed", actual: "passed", message: "" },
        { title: "d", expected: "nothing", actual: "passed", message: "" },
      ]);
    });

    it("keeps the reasons that somebody wrote when it is recorded again", () => {
      const results = [
        result("a", "passed"),
        result("b", "skipped", "skip.go:1"),
        result("e", "skipped", "no cloud\nmore"),
      ];
      const again = expectationOf(results, known);
      assert.deepEqual(again, { passed: ["a"], skipped: { b: "one node", e: "no cloud" }, failed: {} });
      assert.deepEqual(compareResults(again, results), []);
    });

    it("is refused when it is not of its form", () => {
      assert.throws(() => readExpectation("passed: a\n"));
      assert.deepEqual(readExpectation("passed: [a]\nskipped: {}\nfailed: {}\n"), {
        passed: ["a"],
        skipped: {},
        failed: {},
      });
    });
  });

  it("the suites have different names and valid expressions", () => {
    assert.equal(new Set(SUITES.map(({ name }) => name)).size, SUITES.length);
    for (const { focus, skip } of SUITES) for (const one of [...focus, ...skip]) assert.ok(new RegExp(one));
  });
});
