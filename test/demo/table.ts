import Table from "cli-table3";

/** Colours a text where the stream takes colour (a terminal, and NO_COLOR unset). */
export type Paint = (style: "red" | "green" | "bold", text: string) => string;

/** A line that says by its mark whether what it tells is as expected. */
export function verdict(paint: Paint, isGood: boolean, text: string): string {
  return `${isGood ? paint("green", "✓") : paint("red", "✗")} ${text}`;
}

/** cli-table3 colours heads and borders by itself unless told not to. */
export function newTable(head: string[]): Table.Table {
  return new Table({ head, style: { head: [], border: [], compact: true } });
}
