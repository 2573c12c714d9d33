import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { NOT_ENDED, readCyclonus } from "../../cluster/suites/cyclonus_output.ts";
import { readGoTest } from "../../cluster/suites/go_test.ts";
import { type CyclonusSuite, SUITES } from "../../cluster/suites/suites.ts";

const FIXTURES = fileURLToPath(new URL("../../fixtures/cluster", import.meta.url));
const PEERS = ["peer-pods", "peer-ipblock"] as const;

function fixture(name: string): string {
  return readFileSync(path.join(FIXTURES, name), "utf8");
}

describe("test/cluster/suites, from other projects than Kubernetes", () => {
  describe("the output of a Go test program", () => {
    it("gives each subtest without subtests of its own, with its duration", () => {
      const results = readGoTest(fixture("conformance.log"), "TestConformanceProfiles");
      assert.deepEqual(results, [
        {
          title: "CNPAdminTierEgressNamedPort/Should_support_an_'allow-egress'_policy_for_named_port",
          state: "passed",
          message: "",
          duration: 6.84,
        },
        ...["an_'allow-egress'", "a_'pass-egress'", "a_'deny-egress'"].map((kind, index) => ({
          title: `CNPAdminTierEgressNodePeers/Should_support_${kind}_rule_policy_for_egress-node-peer`,
          state: "passed",
          message: "",
          duration: [0.23, 0.25, 18.62][index],
        })),
      ]);
    });

    it("gives a failure with its text, and a test that fails although its subtests pass", () => {
      const results = readGoTest(fixture("go_test.log"), "TestAll").map(({ title, state, message }) => [
        title,
        state,
        message.split("\n").slice(0, 2).join("; "),
      ]);
      assert.deepEqual(results, [
        ["Tcp/Should_allow", "passed", ""],
        [
          "Tcp/Should_deny",
          "failed",
          "x_test.go:11: FAILED Command was connect; x_test.go:12: Error Trace: helper.go:88",
        ],
        ["Named", "skipped", "x_test.go:15: Skipping Named"],
        ["Broken", "failed", "x_test.go:18: the policy stays"],
        ["Broken/Should_work", "passed", ""],
        ["Cut", "failed", "panic: no cluster [recovered, repanicked]; "],
      ]);
    });

    it("of a program that was killed gives each test that began as a failure", () => {
      const [begun = ""] = fixture("conformance.log").split("--- PASS");
      const results = readGoTest(begun, "TestConformanceProfiles");
      assert.equal(results.length, 4);
      for (const { state, message } of results) assert.deepEqual([state, message], ["failed", NOT_ENDED]);
    });

    it("of a program that fails before its first subtest gives the test function itself", () => {
      const output = "=== RUN   TestAll\n    x_test.go:4: no cluster\n--- FAIL: TestAll (0.01s)\nFAIL\n";
      assert.deepEqual(
        readGoTest(output, "TestAll").map(({ title, state, message }) => [title, state, message.split("\n")[0]]),
        [["TestAll", "failed", "x_test.go:4: no cluster"]],
      );
      assert.deepEqual(readGoTest("unable to load the kubeconfig\n", "TestAll"), []);
    });
  });

  describe("the output of cyclonus", () => {
    it("gives every listed case, and those that it did not reach as failures", () => {
      const results = readCyclonus(fixture("cyclonus.log"));
      assert.equal(results.length, 26);
      assert.deepEqual(results.slice(0, 3), [
        {
          title: "empty pods + nil ns [all-pods, direction, ingress, peer-pods, policy-namespace]",
          state: "passed",
          message: "",
          duration: 0,
        },
        {
          title: "pods by label + nil ns [direction, ingress, peer-pods, pods-by-label, policy-namespace]",
          state: "passed",
          message: "",
          duration: 0,
        },
        {
          title: "nil pods + empty ns [all-namespaces, all-pods, direction, ingress, peer-pods]",
          state: "failed",
          message: NOT_ENDED,
          duration: 0,
        },
      ]);
      assert.equal(new Set(results.map(({ title }) => title)).size, results.length);
    });

    it("gives a failed case with the counts and the table of its differences", () => {
      const results = readCyclonus(fixture("cyclonus_mock.log"));
      assert.deepEqual(
        results.map(({ state }) => state),
        ["failed", "failed", "passed", "failed", "failed"],
      );
      const message = results[0]?.message.split("\n") ?? [];
      assert.equal(message[0], "step 1 on all available ports/protocols: 16 wrong, 9 ignored, 56 correct");
      assert.match(message[2] ?? "", /x\/A.*x\/B.*z\/C/i);
      assert.ok(message.filter((line) => line.includes("X")).length > 0);
      assert.equal(results[3]?.message, NOT_ENDED);
    });

    it("gives cases with the same description and tags a number", () => {
      const list = "test #1: a\n - tags: port\ntest #2: a\n - tags: port\ntest #3: a\n - tags: rule\n";
      assert.deepEqual(
        readCyclonus(list).map(({ title }) => title),
        ["a [port]", "a [port] (2)", "a [rule]"],
      );
    });
  });

  it("each combination of the tags that divide cyclonus is in exactly one part", () => {
    const parts = SUITES.filter((suite): suite is CyclonusSuite => suite.runner === "cyclonus");
    const tags = ["sctp", "multi-peer", "port", ...PEERS];
    for (let bits = 0; bits < 2 ** tags.length; bits++) {
      const ofCase = tags.filter((_, index) => (bits & (2 ** index)) !== 0);
      const holders = parts.filter(
        ({ include, exclude }) =>
          (include.length === 0 || include.some((tag) => ofCase.includes(tag))) &&
          !exclude.some((tag) => ofCase.includes(tag)),
      );
      assert.equal(holders.length, 1, `a case with the tags ${ofCase.join(", ")} is in ${holders.length} parts`);
    }
  });
});
