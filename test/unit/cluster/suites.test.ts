import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { compareResults, type Expectation, expectationOf, readExpectation } from "../../cluster/suites/expectation.ts";
import { readResults, type TestResult } from "../../cluster/suites/result.ts";
import { describeProgress, readEndedTests } from "../../cluster/suites/progress.ts";
import { describeResults } from "../../cluster/suites/report.ts";
import { keepPassed, passedBefore } from "../../cluster/suites/resume.ts";
import { QUICK, skippedByChoice, SUITES } from "../../cluster/suites/suites.ts";

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
    it("gives each test with its full title, its state, its message and its seconds", () => {
      const json = JSON.stringify([{ SpecReports: [spec("serves", "passed"), spec("drops", "failed", "timed out")] }]);
      assert.deepEqual(readResults(json), [
        { title: "[sig-network] Services drops", state: "failed", message: "timed out", duration: 1.5 },
        { title: "[sig-network] Services serves", state: "passed", message: "", duration: 1.5 },
      ]);
    });

    it("gives a test that skipped itself with its reason, and omits those that focus or skip excluded", () => {
      const json = JSON.stringify([
        { SpecReports: [spec("a", "skipped", "needs 3 nodes"), spec("b", "skipped"), spec("c", "pending")] },
      ]);
      assert.deepEqual(
        readResults(json).map(({ title, message }) => [title, message]),
        [["[sig-network] Services a", "needs 3 nodes"]],
      );
    });

    it("counts every other outcome as a failure, also that of the suite's set-up", () => {
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

    it("keeps its hand-written reasons when it is recorded again", () => {
      const results = [
        result("a", "passed"),
        result("b", "skipped", "skip.go:1"),
        result("e", "skipped", "no cloud\nmore"),
      ];
      const again = expectationOf(results, known);
      assert.deepEqual(again, { passed: ["a"], skipped: { b: "one node", e: "no cloud" }, failed: {} });
      assert.deepEqual(compareResults(again, results), []);
    });

    it("is refused when its form is invalid", () => {
      assert.throws(() => readExpectation("passed: a\n"));
      assert.deepEqual(readExpectation("passed: [a]\nskipped: {}\nfailed: {}\n"), {
        passed: ["a"],
        skipped: {},
        failed: {},
      });
    });
  });

  describe("Ginkgo's output", () => {
    const titles = ["[sig-network] DNS works [Slow]", "[sig-network] DNS works", "[sig-network] HostPort is free"];
    const output = [
      "SSSSSS",
      "------------------------------",
      "• [2.803 seconds]",
      "[sig-network] DNS works [Slow] [sig-network, Slow]",
      "network/dns.go:1095",
      "------------------------------",
      "SS",
      "------------------------------",
      "• [FAILED] [61.000 seconds]",
      "[sig-network] HostPort [It] is free [sig-network]",
      "------------------------------",
      "S [SKIPPED] [0.020 seconds]",
      "[sig-network] DNS works [sig-network]",
      "------------------------------",
      "• [1.000 seconds]",
      "[sig-network] a test of another list",
      "",
    ].join("\n");

    it("gives the tests that have ended before there is a report, also with titles that end like labels", () => {
      assert.deepEqual(readEndedTests(output, titles), [
        { title: "[sig-network] DNS works [Slow]", state: "passed", duration: 2.803 },
        { title: "[sig-network] HostPort is free", state: "failed", duration: 61 },
        { title: "[sig-network] DNS works", state: "skipped", duration: 0.02 },
      ]);
    });

    it("gives them also where a single process prints the titles first", () => {
      const line = "------------------------------\n";
      const alone = `SSS\n${line}[sig-network] DNS works [sig-network]\nnetwork/dns.go:1\n  STEP: asks\n• [3.500 seconds]\n${line}SSSS\n${line}`;
      assert.deepEqual(readEndedTests(`${line}${alone}[sig-network] HostPort is free\n  STEP: a\n`, titles), [
        { title: "[sig-network] DNS works", state: "passed", duration: 3.5 },
      ]);
    });

    it("gives no test whose line is incomplete", () => {
      assert.deepEqual(readEndedTests("• [2.803 seconds]\n[sig-network] DNS wor", titles), []);
      assert.deepEqual(readEndedTests("• [PANICKED!] [2.803 seconds]\n", titles), []);
    });

    it("is summarized in a line that names the failures so far", () => {
      assert.equal(
        describeProgress(readEndedTests(output, titles), 40),
        "3 of 40 tests ended, 1 failed: [sig-network] HostPort is free",
      );
      assert.equal(describeProgress([], 40), "0 of 40 tests ended, 0 failed");
    });
  });

  it("a resumed run omits what passed in earlier runs, and repeats failed tests and ignores unknown ones", () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-suites-"));
    try {
      assert.deepEqual(passedBefore(directory, "s", ["a", "b", "c"]), []);
      writeFileSync(
        path.join(directory, "s.log"),
        "• [1.000 seconds]\na [net]\n------------------------------\n• [FAILED] [2.000 seconds]\nb [It] [net]\n",
      );
      const first = passedBefore(directory, "s", ["a", "b [net]", "c"]);
      assert.deepEqual(first, [result("a", "passed")]);
      keepPassed(directory, "s", first);
      writeFileSync(
        path.join(directory, "s.log"),
        "• [1.000 seconds]\nc [net]\n------------------------------\n• [1.000 seconds]\nd\n",
      );
      assert.deepEqual(passedBefore(directory, "s", ["a", "b [net]", "c"]), [
        result("a", "passed"),
        result("c", "passed"),
      ]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("a suite's result has its numbers, the skipped tests by reason, known failures, and unexpected results", () => {
    const known: Expectation = { passed: ["a"], skipped: { b: "one node" }, failed: { c: "a known fault" } };
    const results = [
      result("a", "failed", "refused\nat 10.0.0.1"),
      result("b", "skipped", "skip.go:1"),
      result("c", "failed", "no answer"),
      result("d", "skipped", "one node"),
    ];
    assert.deepEqual(describeResults("network-4", results, known, compareResults(known, results)), [
      "network-4: 0 passed, 2 failed, 2 skipped: 2 tests did not end as expected",
      "  skipped: one node",
      "    b",
      "    d",
      "  known to fail: c: a known fault",
      "  failed, expected passed: a",
      "    refused",
      "    at 10.0.0.1",
      "  skipped, expected nothing: d",
      "    one node",
    ]);
  });

  it("a test that a suite omits counts as skipped for the first matching reason", () => {
    const omitted = { SCTP: "no SCTP", [String.raw`\[Slow\]`]: "slow" };
    assert.deepEqual(
      skippedByChoice({ omitted }, ["a", "b [Slow]", "c SCTP [Slow]"]).map(({ title, state, message }) => [
        title,
        state,
        message,
      ]),
      [
        ["b [Slow]", "skipped", "slow"],
        ["c SCTP [Slow]", "skipped", "no SCTP"],
      ],
    );
  });

  it("the suites have different names, valid expressions, and a reason for each test that they omit", () => {
    const suites = [...SUITES, QUICK];
    assert.equal(new Set(suites.map(({ name }) => name)).size, suites.length);
    for (const suite of suites) {
      if (suite.runner !== "ginkgo") continue;
      const { focus, elsewhere = [], omitted } = suite;
      for (const one of [...focus, ...elsewhere, ...Object.keys(omitted)]) assert.ok(new RegExp(one));
      for (const reason of Object.values(omitted)) assert.match(reason, /^[a-z].{10}/);
    }
  });
});
