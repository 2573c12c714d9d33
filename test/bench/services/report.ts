import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { styleText } from "node:util";
import Table from "cli-table3";
import type { Machine } from "../machine.ts";
import type { ServicesRow, Unit } from "./row.ts";

/** The results of one run of the benchmark of Services. */
export interface ServicesReport {
  readonly machine: Machine;
  readonly nft: string;
  readonly seconds: number;
  readonly rows: readonly ServicesRow[];
}

/** Prints a report as a table or JSON, and leaves the JSON in a file. */
export function publishServicesReport(report: ServicesReport, file: string, output: "table" | "json"): void {
  const json = `${JSON.stringify(report, undefined, 2)}\n`;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, json);
  process.stdout.write(
    output === "json" ? json : `${formatServicesReport(report)}\nall values: ${path.relative(process.cwd(), file)}\n`,
  );
}

/** Formats the report for people. */
export function formatServicesReport({ machine, nft, seconds, rows }: ServicesReport): string {
  const table = new Table({
    head: ["what", "n", "ours", "other", "ours / other", "95 % interval", "goal", "reached"],
    colAligns: ["left", "right", "right", "right", "right", "right", "right", "left"],
    style: { head: [], border: [] },
  });
  for (const row of rows) table.push(cellsOf(row));
  const remarks = rows.flatMap(({ title, remark }) => (remark === undefined ? [] : [`${title}: ${remark}`]));
  return [
    `${machine.processor}, ${machine.processors} processors, ${machine.memoryGigabytes} GB; Linux ${machine.kernel}; ${nft}; load ${machine.load.toFixed(1)} at the start; ${seconds} s`,
    table.toString(),
    ...remarks,
  ].join("\n");
}

function cellsOf(row: ServicesRow): string[] {
  const { title, values, unit, ours, peer, against, estimate, goal = "", isReached } = row;
  const isCompared = typeof peer === "number";
  const interval = (value: number): string => (isCompared ? ratioText(value) : valueText(value, unit));
  return [
    against === undefined ? title : `${title}, ${against}`,
    String(values.length),
    valueText(ours, unit),
    peer === undefined ? "" : peer === "cut" ? "cut" : valueText(peer, unit),
    isCompared && estimate !== undefined ? ratioText(estimate.ratio) : "",
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
