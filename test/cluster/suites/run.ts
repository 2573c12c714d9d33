import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { installAddOn } from "../addon.ts";
import { makeCluster, removeCluster } from "../cluster.ts";
import { makeMaterials } from "../materials.ts";
import { CACHE, PROJECT } from "../place.ts";
import type { RunningCluster } from "../state.ts";
import type { Expectation } from "./expectation.ts";
import { compareResults, expectationOf, readExpectation } from "./expectation.ts";
import { runTests } from "./ginkgo.ts";
import type { TestResult } from "./result.ts";
import { readResults } from "./result.ts";
import type { Suite } from "./suites.ts";
import { QUICK, SUITES } from "./suites.ts";

const RESULTS = path.join(CACHE, "results");
const EXPECTATIONS = path.join(PROJECT, "test/cluster/expectations");
const NOTHING: Expectation = { passed: [], skipped: {}, failed: {} };

/** Options of a run. */
export interface SuiteOptions {
  /** Names; all suites when absent. */
  readonly suite?: readonly string[];
  readonly quick?: true;
  readonly resume?: true;
  readonly record?: true;
}

/**
 * Runs suites, each on a cluster of its own, and prints what differs from the expectation.
 *
 * @returns whether everything ended as expected
 */
export async function runSuites(options: SuiteOptions, say: (line: string) => void): Promise<boolean> {
  const suites = options.quick === true ? [QUICK] : SUITES.filter(({ name }) => options.suite?.includes(name) ?? true);
  if (options.resume !== true) rmSync(RESULTS, { recursive: true, force: true });
  const materials = makeMaterials(say);
  let isAsExpected = true;
  for (const suite of suites) {
    const report = path.join(RESULTS, `${suite.name}.json`);
    if (!existsSync(report)) {
      say(`${suite.name}: makes the cluster`);
      await removeCluster();
      try {
        const cluster = await makeCluster(suite.settings, materials, say);
        installAddOn(cluster, materials, say);
        await runTests(cluster, suite, materials.programs, RESULTS, say);
      } finally {
        await removeCluster();
      }
    }
    const results = readResults(readFileSync(report, "utf8"));
    isAsExpected = judge(suite, results, options.record === true) && isAsExpected;
  }
  return isAsExpected;
}

/** Runs the tests that match on a cluster that is up. Returns whether some ran and none failed. */
export async function runFocused(
  cluster: RunningCluster,
  programs: string,
  focus: readonly string[],
  say: (line: string) => void,
): Promise<boolean> {
  const suite = { name: "focused", focus, skip: [], processes: 1 };
  const results = await runTests(cluster, suite, programs, path.join(CACHE, "focused"), say);
  for (const { state, title, message } of results)
    console.log(`${state.padEnd(8)} ${title}\n         ${message.slice(0, 500)}`.trimEnd());
  return results.length > 0 && results.every(({ state }) => state !== "failed");
}

function judge({ name }: Suite, results: readonly TestResult[], isRecorded: boolean): boolean {
  const file = path.join(EXPECTATIONS, `${name}.yaml`);
  const known = existsSync(file) ? readExpectation(readFileSync(file, "utf8")) : NOTHING;
  if (isRecorded) {
    mkdirSync(EXPECTATIONS, { recursive: true });
    writeFileSync(file, stringify(expectationOf(results, known), { lineWidth: 0 }));
  }
  const number = (state: TestResult["state"]): number => results.filter((one) => one.state === state).length;
  console.log(`\n${name}: ${number("passed")} passed, ${number("failed")} failed, ${number("skipped")} skipped`);
  for (const { title, message } of results.filter(({ state }) => state === "skipped")) {
    console.log(`  skipped: ${title}: ${known.skipped[title] ?? message.split("\n")[0]}`);
  }
  const deviations = isRecorded ? [] : compareResults(known, results);
  for (const { title, expected, actual, message } of deviations) {
    console.log(`  ${actual}, expected ${expected}: ${title}\n    ${message.split("\n").slice(0, 6).join("\n    ")}`);
  }
  return deviations.length === 0;
}
