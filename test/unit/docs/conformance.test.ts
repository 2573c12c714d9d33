import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { type Expectation, readExpectation } from "../../cluster/suites/expectation.ts";
import { cellsBelow } from "../../support/markdown.ts";

const DOCUMENT = readFileSync(new URL("../../../docs/conformance.md", import.meta.url), "utf8");
const KUBERNETES_SUITES = ["network-4", "network-6", "netpol-4", "netpol-6", "quick"];

const RESULTS = cellsBelow(DOCUMENT, [
  "suite",
  "passed",
  "failed",
  "skipped",
  "minutes",
  "nodes",
  "first family",
  "tests",
]);
const SKIPPED = cellsBelow(DOCUMENT, ["reason", "tests", "skipped in"]);
const FAILED = cellsBelow(DOCUMENT, ["failed test", "why", "in suite"]);

function expectationFile(suite: string): URL {
  return new URL(`../../cluster/expectations/${suite}.yaml`, import.meta.url);
}

function expectationOf(suite: string): Expectation {
  return readExpectation(readFileSync(expectationFile(suite), "utf8"));
}

function suiteOf([suite = ""]: readonly string[]): string {
  return suite.replaceAll("`", "");
}

describe("docs/conformance.md", () => {
  for (const family of ["4", "6"]) {
    it(`CNP-11: on a cluster with IPv${family} first each test of the ClusterNetworkPolicy API's own suite has passed by its name`, () => {
      const { passed, skipped, failed } = expectationOf(`network-policy-api-${family}`);
      assert.deepEqual([passed.length, skipped, failed], [112, {}, {}]);
      const report = readFileSync(new URL(`../../cluster/reports/network-policy-api-${family}.yaml`, import.meta.url));
      const results = [...report.toString().matchAll(/(?:result|Failed|Skipped): (\S+)/g)].map(([, found]) => found);
      assert.deepEqual(results, ["success", "0", "0", "success", "0", "0"]);
      // Each of the API's 30 tests has its subtests.
      assert.equal(new Set(passed.map((title) => title.split("/")[0])).size, 30);
    });
  }

  for (const family of ["4", "6"]) {
    it(`POL-61: on a cluster with IPv${family} first each of Kubernetes' own tests of NetworkPolicy has passed by its name, except those of SCTP`, () => {
      const { passed, skipped, failed } = expectationOf(`netpol-${family}`);
      assert.deepEqual([new Set(passed).size, failed], [48, {}]);
      assert.deepEqual(
        Object.keys(skipped).filter((title) => !title.includes("[Feature:SCTPConnectivity]")),
        [],
      );
    });
  }

  it("has a row for each suite of Kubernetes whose results are recorded", () => {
    const recorded = KUBERNETES_SUITES.filter((suite) => existsSync(expectationFile(suite)));
    assert.ok(recorded.length > 0);
    assert.deepEqual(
      recorded.filter((suite) => !RESULTS.map(suiteOf).includes(suite)),
      [],
    );
  });

  it("has the numbers of the recorded expectations", () => {
    for (const row of RESULTS) {
      const { passed, failed, skipped } = expectationOf(suiteOf(row));
      const numbers = [passed.length, Object.keys(failed).length, Object.keys(skipped).length].map(String);
      assert.deepEqual(row.slice(1, 4), numbers, suiteOf(row));
    }
  });

  it("has the reason of each skipped test, with the number of tests in each suite", () => {
    const said = new Map(SKIPPED.map(([reason = "", , suites = ""]) => [reason, suites]));
    for (const suite of RESULTS.map(suiteOf)) {
      const byReason = Map.groupBy(Object.values(expectationOf(suite).skipped), (reason) => reason);
      for (const [reason, tests] of byReason) {
        const suites = (said.get(reason) ?? "").split(", ");
        assert.ok(suites.includes(`\`${suite}\` ${tests.length}`), `${suite}: ${reason}: ${tests.length}`);
      }
    }
  });

  it("has the reason of each test that is known to fail", () => {
    for (const suite of RESULTS.map(suiteOf)) {
      for (const [title, reason] of Object.entries(expectationOf(suite).failed)) {
        const row = FAILED.find(([test]) => test === title);
        assert.equal(row?.[1], reason, title);
        assert.ok(row?.[2]?.includes(`\`${suite}\``), `${suite}: ${title}`);
      }
    }
  });
});
