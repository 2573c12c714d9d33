import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { type CLI_SUBJECTS, measureCli } from "./cli/scenarios.ts";
import { thisMachine } from "./machine.ts";
import { publishReport } from "./report.ts";

/**
 * Measures the command line, prints a table and leaves JSON.
 *
 * @param runs how often each command is run, each time in a process of its own
 * @param only the subjects; all when absent
 */
export function benchCli(
  runs: number,
  only: readonly (typeof CLI_SUBJECTS)[number][] | undefined,
  progress: (step: string) => void,
): void {
  const machine = thisMachine();
  const started = performance.now();
  const directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-bench-cli-"));
  try {
    const rows = measureCli(directory, runs, progress, only);
    const seconds = Math.round((performance.now() - started) / 1000);
    publishReport("cli", { machine, programs: `Node ${process.version}`, seconds, rows });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
