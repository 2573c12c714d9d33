import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import Table from "cli-table3";
import { type CLI_SUBJECTS, type CliRow, measureCli } from "./cli/scenarios.ts";
import { type Machine, thisMachine } from "./machine.ts";

const RESULTS = fileURLToPath(new URL("../../test-results/bench-cli.json", import.meta.url));

/**
 * Measures the command line, prints a table or JSON and writes the JSON to a file.
 *
 * @param runs how often each command is run, each time in a process of its own
 * @param only the subjects; all when absent
 */
export function benchCli(
  runs: number,
  only: readonly (typeof CLI_SUBJECTS)[number][] | undefined,
  output: "table" | "json",
  progress: (step: string) => void,
): void {
  const machine = thisMachine();
  const directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-bench-cli-"));
  try {
    const rows = measureCli(directory, runs, progress, only);
    const json = `${JSON.stringify({ machine, rows }, undefined, 2)}\n`;
    mkdirSync(path.dirname(RESULTS), { recursive: true });
    writeFileSync(RESULTS, json);
    const text = `${formatRows(machine, rows)}\nall values: ${path.relative(process.cwd(), RESULTS)}\n`;
    process.stdout.write(output === "json" ? json : text);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function formatRows(machine: Machine, rows: readonly CliRow[]): string {
  const table = new Table({
    head: ["what", "runs", "median", "goal", "reached", "remark"],
    colAligns: ["left", "right", "right", "right", "left", "left"],
    style: { head: [], border: [] },
  });
  for (const { title, runs, value, unit, goal, remark } of rows) {
    const number = `${value.toFixed(unit === "×" ? 2 : 0)} ${unit}`;
    table.push([title, runs, number, `≤ ${goal} ${unit}`, value <= goal ? "yes" : "no", remark]);
  }
  return `${machine.processor}, load ${machine.load.toFixed(1)} at the start\n${table.toString()}`;
}
