import Table from "cli-table3";

/** Colours a text where the stream supports colour (a terminal, and NO_COLOR unset). */
export type Paint = (style: "red" | "green" | "bold", text: string) => string;

/** Returns a line with a mark that shows whether its text is as expected. */
export function verdict(paint: Paint, isGood: boolean, text: string): string {
  return `${isGood ? paint("green", "✓") : paint("red", "✗")} ${text}`;
}

/** Returns a table whose head and borders have no colour, which cli-table3 adds by default. */
export function newTable(head: string[]): Table.Table {
  return new Table({ head, style: { head: [], border: [], compact: true } });
}
