import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { styleText } from "node:util";
import Table from "cli-table3";
import type { Machine } from "./machine.ts";
import type { Row, Unit } from "./row.ts";

const RESULTS = fileURLToPath(new URL("../../test-results/", import.meta.url));

/** The results of one run of a benchmark. */
export interface Report {
  readonly machine: Machine;
  /** The versions of the programs that were compared or used. */
  readonly programs: string;
  readonly seconds: number;
  readonly rows: readonly Row[];
}

/** Prints a report as a table, and leaves it as JSON in test-results/bench-NAME.json. */
export function publishReport(name: string, report: Report): void {
  const file = path.join(RESULTS, `bench-${name}.json`);
  mkdirSync(RESULTS, { recursive: true });
  writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
  process.stdout.write(`${formatReport(report)}\nall values: ${path.relative(process.cwd(), file)}\n`);
}

/** Formats the report for people. */
function formatReport({ machine, programs, seconds, rows }: Report): string {
  const table = new Table({
    head: ["what", "n", "ours", "other", "ours / other", "95 % interval", "goal", "reached"],
    colAligns: ["left", "right", "right", "right", "right", "right", "right", "left"],
    style: { head: [], border: [] },
  });
  for (const row of rows) table.push(cellsOf(row));
  const remarks = rows.flatMap(({ title, remark }) => (remark === undefined ? [] : [`${title}: ${remark}`]));
  return [
    `${machine.processor}, ${machine.processors} processors, ${machine.memoryGigabytes} GB; Linux ${machine.kernel}; ${programs}; load ${machine.load.toFixed(1)} at the start; ${seconds} s`,
    table.toString(),
    ...remarks,
  ].join("\n");
}

function cellsOf(row: Row): string[] {
  const { title, values, unit, ours, peer, against, estimate, goal = "", isReached } = row;
  const interval = (value: number): string => (peer === undefined ? valueText(value, unit) : ratioText(value));
  return [
    against === undefined ? title : `${title}, ${against}`,
    String(values.length),
    valueText(ours, unit),
    peer === undefined ? "" : valueText(peer, unit),
    peer === undefined || estimate === undefined ? "" : ratioText(estimate.ratio),
    estimate === undefined || values.length < 3 ? "" : `${interval(estimate.low)} - ${interval(estimate.high)}`,
    goal,
    isReached === undefined ? "" : isReached ? styleText("green", "yes") : styleText("red", "no"),
  ];
}

/** Returns the text of a ratio; below a tenth it is how many times faster. */
function ratioText(ratio: number): string {
  return ratio > 0 && ratio < 0.1 ? `1/${(1 / ratio).toFixed(0)}` : ratio.toFixed(2);
}

function valueText(value: number, unit: Unit): string {
  const digits = Math.abs(value) < 1 ? 3 : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${unit}`;
}
