/** Returns a table in Markdown. Vertical bars, which would end a cell, are escaped. */
export function tableOf(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `|${cells.map((cell) => (cell === "" ? " " : ` ${cell.replaceAll("|", "\\|")} `)).join("|")}|`;
  return [line(columns), `|${columns.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

/**
 * Returns a text in which a table replaces the one with these columns; the rest stays.
 *
 * @throws Error when there is no such table
 */
export function withTable(text: string, columns: readonly string[], table: string): string {
  const lines = text.split("\n");
  const start = lines.indexOf(tableOf(columns, []).split("\n")[0] ?? "");
  if (start < 0) throw new Error(`no table with the columns ${columns.join(", ")}`);
  const length = lines.slice(start).findIndex((line) => !line.startsWith("|"));
  lines.splice(start, length < 0 ? lines.length - start : length, table);
  return lines.join("\n");
}
