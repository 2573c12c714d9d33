import { stripVTControlCharacters } from "node:util";
import { foldLine } from "./fold.ts";

/** Blanks between columns. */
export const GAP = 3;

/**
 * Formats a table as kubectl does: upper-case heads, three blanks between columns, no lines. The last column is folded
 * at its blanks to the remaining width.
 */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[], columns: number): string {
  const all = [head.map((text) => text.toUpperCase()), ...rows];
  const widths = widthsOf(all);
  return all.map((row) => formatRow(row, widths, columns)).join("");
}

/** Returns the widths that hold every text. */
export function widthsOf(rows: readonly (readonly string[])[]): readonly number[] {
  const widths: number[] = [];
  for (const row of rows) for (const [i, text] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, textWidth(text));
  return widths;
}

/** Returns one row of a table with its line end. */
export function formatRow(row: readonly string[], widths: readonly number[], columns: number): string {
  let start = "";
  for (const [i, text] of row.slice(0, -1).entries()) {
    start += text + " ".repeat(Math.max(0, (widths[i] ?? 0) - textWidth(text)) + GAP);
  }
  const width = textWidth(start);
  // A regular expression would try every run of blanks: in a wide table that is quadratic in the gaps.
  return `${`${start}${foldLine(row.at(-1) ?? "", columns, width).slice(width)}`.trimEnd()}\n`;
}

function textWidth(text: string): number {
  if (!text.includes("\u001b")) return text.length;
  return stripVTControlCharacters(text).length;
}
