import { rowLine } from "../../policyd/flows/journal.ts";
import { endText, type FlowRow } from "../../policyd/flows/row.ts";
import { printable } from "../../objects/printable.ts";
import { formatTable } from "../output/table.ts";
import { timeText, trafficText } from "../output/text.ts";
import type { Style } from "../io.ts";

export const FLOW_FORMATS = ["table", "jsonl"] as const;

const KIBIBYTE = 1024;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** Returns the rows as a table, those that were seen last first. */
export function flowTable(rows: readonly FlowRow[], style: Style, columns: number): string {
  const hasReasons = rows.some(({ reason }) => reason !== undefined);
  const head = ["from", "to", "port", "verdict", "count", "open", "bytes", "first seen", "last seen"];
  const cells = bySeen(rows).map((row) => [
    printable(endText(row.from)),
    printable(endText(row.to)),
    trafficText(row),
    verdictText(row, style),
    `${row.count}`,
    `${row.open}`,
    bytesText(row.bytes),
    timeText(row.firstSeen),
    timeText(row.lastSeen),
    ...(hasReasons ? [printable(row.reason ?? "")] : []),
  ]);
  return formatTable(hasReasons ? [...head, "because"] : head, cells, columns);
}

/** Returns a line for a changed row. @param news connections or packets since it was printed last */
export function flowLine(row: FlowRow, news: number, style: Style): string {
  const { from, to, lastSeen, reason } = row;
  const ends = `${printable(endText(from))} > ${printable(endText(to))} ${trafficText(row)}`;
  const because = reason === undefined ? "" : `: ${printable(reason)}`;
  return `${timeText(lastSeen)} ${verdictText(row, style)} ${ends} +${news}${because}\n`;
}

/** Returns the rows as lines of JSON. */
export function flowJson(rows: readonly FlowRow[]): string {
  return bySeen(rows).map(rowLine).join("");
}

function bySeen(rows: readonly FlowRow[]): readonly FlowRow[] {
  return rows.toSorted((a, b) => b.lastSeen - a.lastSeen);
}

function verdictText({ verdict }: FlowRow, style: Style): string {
  return verdict === "allowed" ? verdict : style.bad(verdict);
}

function bytesText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= KIBIBYTE && unit < UNITS.length - 1) [value, unit] = [value / KIBIBYTE, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}
