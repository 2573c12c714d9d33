import { styleText } from "node:util";
import Table from "cli-table3";
import type { Machine } from "./machine.ts";
import type { Goal, Row } from "./row.ts";

/** The results of one run of the benchmark. */
export interface Report {
  readonly machine: Machine;
  readonly ours: string;
  readonly peer: string;
  readonly pairs: number;
  readonly seconds: number;
  readonly rows: readonly Row[];
}

/** Formats the report for people. */
export function formatReport(report: Report): string {
  const { machine } = report;
  const table = new Table({
    head: ["scenario", "pairs", "ours", "peer", "ours / peer", "95 % interval", "goal", "shown"],
    colAligns: ["left", "right", "right", "right", "right", "right", "right", "left"],
    style: { head: [], border: [] },
  });
  for (const row of report.rows) table.push(cellsOf(row));
  const remarks = report.rows.flatMap(({ title, remark }) => (remark === undefined ? [] : [`${title}: ${remark}.`]));
  return [
    `${report.ours} against ${report.peer}`,
    `${machine.processor}, ${machine.processors} processors, ${machine.memoryGigabytes} GB; Linux ${machine.kernel}; load ${machine.load.toFixed(1)} at the start`,
    table.toString(),
    ...remarks,
  ].join("\n");
}

function cellsOf(row: Row): string[] {
  const value = (number: number): string => `${number < 10 ? number.toFixed(2) : number.toFixed(1)} ${row.unit}`;
  const { estimate } = row;
  return [
    row.title,
    String(row.pairs.length),
    value(row.ours),
    value(row.peer),
    estimate === undefined ? "-" : estimate.ratio.toFixed(2),
    estimate === undefined || row.pairs.length === 1 ? "-" : `${estimate.low.toFixed(2)} - ${estimate.high.toFixed(2)}`,
    row.goal === undefined ? "" : goalText(row.goal),
    row.isShown === undefined ? "" : row.isShown ? styleText("green", "yes") : styleText("red", "no"),
  ];
}

function goalText(goal: Goal): string {
  return `${goal.kind === "at most" ? "≤" : "≥"} ${goal.ratio.toFixed(2)}`;
}
