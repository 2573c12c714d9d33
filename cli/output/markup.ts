import { printable } from "../../objects/printable.ts";

/** Escapes a text for an element or a quoted attribute; control and bidirectional characters are written out. */
export function markupText(text: string): string {
  return printable(text).replaceAll(/[&<>"'`]/g, (sign) => `&#${sign.codePointAt(0)};`);
}

/**
 * Formats a text as code in Markdown, where nothing in it is a link, a mention or a format: the fence is longer than
 * any run of backticks in it. Bars are escaped, since they would end a cell of a table.
 */
export function markdownCode(text: string): string {
  const shown = printable(text).replaceAll("|", "\\|");
  const longest = Math.max(0, ...[...shown.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const gap = longest > 0 || shown === "" ? " " : "";
  return `${fence}${gap}${shown}${gap}${fence}`;
}

/** Formats a table of Markdown; every cell is Markdown already. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("");
}
