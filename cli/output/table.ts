import { stripVTControlCharacters } from "node:util";
import { foldLine } from "./fold.ts";

/** Blanks between columns. */
export const GAP = 3;

/** How wide the columns of a table are. */
export type Widths = readonly number[];

/**
 * Columns as kubectl prints them: capital heads, three blanks in between, no lines. The last column is folded at its
 * blanks to what is left of the width.
 */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[], columns: number): string {
  const all = [head.map((text) => text.toUpperCase()), ...rows];
  const widths = widthsOf(all);
  return all.map((row) => formatRow(row, widths, columns)).join("");
}

/** The widths that hold every text. */
export function widthsOf(rows: readonly (readonly string[])[]): Widths {
  const widths: number[] = [];
  for (const row of rows) for (const [i, text] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, textWidth(text));
  return widths;
}

/** One row of a table with its line end. */
export function formatRow(row: readonly string[], widths: Widths, columns: number): string {
  const before = row
    .slice(0, -1)
    .map((text, i) => text + " ".repeat(Math.max(0, (widths[i] ?? 0) - textWidth(text)) + GAP));
  const start = before.join("");
  const width = textWidth(start);
  return `${start}${foldLine(row.at(-1) ?? "", columns, width, width).slice(width)}`.replace(/ +\n$/, "\n");
}

function textWidth(text: string): number {
  return stripVTControlCharacters(text).length;
}
