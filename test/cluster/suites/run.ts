import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { installAddOn } from "../addon.ts";
import { makeCluster, type Materials, removeCluster } from "../cluster.ts";
import { makeMaterials } from "../materials.ts";
import { OVERLAY_SUITES } from "../overlays/suites.ts";
import { CACHE, PROJECT } from "../place.ts";
import { buildContainerd, buildCyclonus, buildNetworkPolicyApi } from "../programs.ts";
import type { RunningCluster } from "../state.ts";
import { runConformance } from "./conformance.ts";
import { runCyclonus } from "./cyclonus.ts";
import { runDomainNames } from "./domain_names.ts";
import { compareResults, type Expectation, expectationOf, readExpectation } from "./expectation.ts";
import { listTests, runTests } from "./ginkgo.ts";
import { describeResults } from "./report.ts";
import { parseResults, type TestResult } from "./result.ts";
import { runShared, shareClusters } from "./shared.ts";
import { QUICK, skippedByChoice, type Suite, SUITES } from "./suites.ts";

const RESULTS = path.join(CACHE, "results");
const EXPECTATIONS = path.join(PROJECT, "test/cluster/expectations");
/** Reports of conformance in upstream's form. */
const REPORTS = path.join(PROJECT, "test/cluster/reports");
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
 * Runs suites and prints the differences from the expectation. Suites with the same settings share a cluster.
 *
 * @returns whether everything ended as expected
 */
export async function runSuites(options: SuiteOptions, say: (line: string) => void): Promise<boolean> {
  const suites = options.quick === true ? [QUICK] : chosenSuites(options.suite);
  if (options.resume !== true) for (const { name } of suites) forgetResults(name);
  const materials = makeMaterials(say);
  const rest = suites.filter(({ name }) => !existsSync(resultsOf(name)));
  buildFor(rest, say);
  for (const group of shareClusters(rest)) {
    await runGroup(group, materials, say);
  }
  const judged = suites.map((suite) => {
    const results = parseResults(readFileSync(resultsOf(suite.name), "utf8"));
    return judge(suite, results, options.record === true);
  });
  return judged.every(Boolean);
}

/** Builds the further programs of these suites first, so that no cluster has to wait for them. */
function buildFor(suites: readonly Suite[], say: (line: string) => void): void {
  if (suites.some(({ runner }) => runner === "conformance" || runner === "domain-names")) buildNetworkPolicyApi(say);
  if (suites.some(({ runner }) => runner === "cyclonus")) buildCyclonus(say);
  if (suites.some(({ settings }) => settings.containerd === 2)) buildContainerd(say);
}

/** Returns the file with the results of a completed suite. */
function resultsOf(name: string): string {
  return path.join(RESULTS, `${name}.json`);
}

/** Returns the suites with these names or groups; those of upstream's own groups when none is named. */
function chosenSuites(names: readonly string[] | undefined): readonly Suite[] {
  if (names === undefined) return SUITES;
  const isNamed = ({ name, group }: Suite): boolean =>
    names.includes(name) || (group !== undefined && names.includes(group));
  return [...SUITES, ...OVERLAY_SUITES].filter(isNamed);
}

/** Runs the matching tests on the cluster that is up. Returns whether some ran and none failed. */
export async function runFocused(
  cluster: RunningCluster,
  programs: string,
  focus: readonly string[],
  say: (line: string) => void,
): Promise<boolean> {
  const suite = { name: "focused", focus, omitted: {}, processes: 1 };
  const results = await runTests(cluster, suite, { programs, directory: path.join(CACHE, "focused") }, say);
  for (const { state, title, message } of results)
    console.log(`${state.padEnd(8)} ${title}\n         ${message.slice(0, 500)}`.trimEnd());
  return results.length > 0 && results.every(({ state }) => state !== "failed");
}

/** Runs suites that share a cluster, and stores the results of each completed one. */
async function runGroup(suites: readonly Suite[], materials: Materials, say: (line: string) => void): Promise<void> {
  const [first] = suites;
  if (first === undefined) return;
  say(`${suites.map(({ name }) => name).join(", ")}: makes the cluster`);
  await removeCluster();
  try {
    const cluster = await makeCluster(first.settings, materials, say);
    if (first.install === undefined) installAddOn(cluster, materials, say);
    else await first.install(cluster, materials, say);
    await runShared(suites, async (suite) => {
      const begun = performance.now();
      const results = await runWith(cluster, suite, materials, say);
      writeFileSync(resultsOf(suite.name), JSON.stringify(results, undefined, 2));
      say(`${suite.name}: ended after ${((performance.now() - begun) / 60_000).toFixed(1)} minutes`);
    });
  } finally {
    await removeCluster();
  }
}

async function runWith(
  cluster: RunningCluster,
  suite: Suite,
  materials: Materials,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  switch (suite.runner) {
    case "ginkgo": {
      const results = await runTests(cluster, suite, { programs: materials.programs, directory: RESULTS }, say);
      return [...results, ...skippedByChoice(suite, listTests({ ...suite, omitted: {} }, materials.programs))];
    }
    case "conformance":
      return await runConformance(cluster, suite.name, materials, RESULTS, say);
    case "domain-names":
      return await runDomainNames(cluster, materials, say);
    case "cyclonus":
      return await runCyclonus(cluster, suite, materials, RESULTS, say);
  }
}

function forgetResults(name: string): void {
  mkdirSync(RESULTS, { recursive: true });
  const files = readdirSync(RESULTS).filter((file) => file.startsWith(`${name}.`));
  for (const file of files) rmSync(path.join(RESULTS, file), { recursive: true });
}

function judge({ name }: Suite, results: readonly TestResult[], isRecorded: boolean): boolean {
  const file = path.join(EXPECTATIONS, `${name}.yaml`);
  const known = existsSync(file) ? readExpectation(readFileSync(file, "utf8")) : NOTHING;
  if (isRecorded) {
    mkdirSync(EXPECTATIONS, { recursive: true });
    writeFileSync(file, stringify(expectationOf(results, known), { lineWidth: 0 }));
    const report = path.join(RESULTS, `${name}.report.yaml`);
    if (existsSync(report)) {
      mkdirSync(REPORTS, { recursive: true });
      writeFileSync(path.join(REPORTS, `${name}.yaml`), readFileSync(report));
    }
  }
  const deviations = isRecorded ? [] : compareResults(known, results);
  console.log(["", ...describeResults(name, results, known, deviations)].join("\n"));
  return deviations.length === 0;
}
