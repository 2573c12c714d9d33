import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { readEndedTests } from "./progress.ts";
import { parseResults, type TestResult } from "./result.ts";

/**
 * Returns the tests of these titles that passed in interrupted runs: those in the output of the last run, NAME.log, and
 * those that were stored before it.
 */
export function passedBefore(directory: string, name: string, titles: readonly string[]): readonly TestResult[] {
  const kept = keptFile(directory, name);
  const log = path.join(directory, `${name}.log`);
  const results = [
    ...(existsSync(kept) ? parseResults(readFileSync(kept, "utf8")) : []),
    ...(existsSync(log) ? readEndedTests(readFileSync(log, "utf8"), titles) : []),
  ];
  return titles.flatMap((title) => {
    const result = results.find((one) => one.title === title && one.state === "passed");
    return result === undefined ? [] : [{ ...result, message: "" }];
  });
}

/** Stores the tests that passed before a run, whose output replaces that of the last one. */
export function keepPassed(directory: string, name: string, passed: readonly TestResult[]): void {
  writeFileSync(keptFile(directory, name), JSON.stringify(passed));
}

function keptFile(directory: string, name: string): string {
  return path.join(directory, `${name}.passed.json`);
}
