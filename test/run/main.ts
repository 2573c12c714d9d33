import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { endAs, type Outcome, runNode } from "../setup/child.mjs";
import { REPORT, type Report, summaryLine } from "../support/report.ts";
import { filesToRepeat, withSecondRun } from "./repeat.ts";
import { stolenMilliseconds } from "./stolen.ts";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const MOCHA = "node_modules/mocha/bin/mocha.js";

const MOST_REPEATS = 3;
/** A longer run is not extended by a repeat. */
const LATEST_REPEAT_MILLISECONDS = 70 * 60_000;

/**
 * The host is calm if it takes less than this share of each processor during a wait of this length; and the most waits.
 */
const CALM_SHARE = 0.05;
const CALM_MILLISECONDS = 5000;
const MOST_WAITS = 24;

await main(process.argv.slice(2));

/** Runs mocha, repeats files that failed while the host took the processors, and prints the totals as the last line. */
async function main(args: readonly string[]): Promise<void> {
  const start = performance.now();
  let ran = await runTests(args);
  for (let repeat = 0; repeat < MOST_REPEATS; repeat++) {
    if (!("report" in ran) || !isWhole(args) || performance.now() - start > LATEST_REPEAT_MILLISECONDS) break;
    const first = ran.report;
    const files = filesToRepeat(first);
    if (files.length === 0) break;
    printRepeated(first, files);
    await calm();
    const second = await runTests([...args, ...files]);
    ran = "report" in second ? { report: withSecondRun(first, second.report, files) } : second;
  }
  if ("report" in ran) conclude(ran.report);
  else endAs(ran);
}

/** Runs mocha. @returns its report; or its exit if the report does not explain the failure */
async function runTests(args: readonly string[]): Promise<{ readonly report: Report } | Outcome> {
  const outcome = await runNode(process.execPath, [MOCHA, ...args], { cwd: PROJECT, env: process.env });
  const report = readReport();
  if (report === undefined || "signal" in outcome) return outcome;
  const isReported =
    outcome.code === 0 || report.failures.length + report.furtherFailures + Number(report.tests.length === 0) > 0;
  return isReported ? { report } : outcome;
}

function printRepeated({ failures }: Report, files: readonly string[]): void {
  print("\n  The host had the processors while these failed; their files are run once more:");
  for (const { fullTitle, file = "", stolenMilliseconds: stolen } of failures) {
    if (files.includes(file)) print(`    ${fullTitle} (${String(stolen)} ms)`);
  }
}

function conclude(report: Report): void {
  writeFileSync(path.join(PROJECT, REPORT), `${JSON.stringify(report, null, 2)}\n`);
  const { tests, passes, pending, furtherFailures } = report;
  const failures = report.failures.length + furtherFailures;
  if (tests.length === 0 && failures === 0) print("  No test ran: no file or title matches what was asked for.\n");
  print(summaryLine({ passes: passes.length, failures, pending: pending.length }));
  process.exitCode = failures > 0 || tests.length === 0 ? 1 : 0;
}

/** Whether the run covers all tests: a user who chose files or titles sees the failure and can repeat the run. */
function isWhole(args: readonly string[]): boolean {
  return args.every((arg) => arg.startsWith("--forbid-"));
}

/** Returns the report of the run that just ended; undefined when no test could be loaded. */
function readReport(): Report | undefined {
  try {
    // The run's reporter wrote it, after it had removed an older one.
    return JSON.parse(readFileSync(path.join(PROJECT, REPORT), "utf8")) as Report;
  } catch {
    return undefined;
  }
}

/** Waits until the host is calm, or for the longest time. */
async function calm(): Promise<void> {
  for (let waits = 0; waits < MOST_WAITS; waits++) {
    const before = stolenMilliseconds();
    await sleep(CALM_MILLISECONDS);
    if (stolenMilliseconds() - before < CALM_SHARE * CALM_MILLISECONDS) return;
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
