/** A table in Markdown. A vertical bar in a cell would end it: it is escaped. */
export function tableOf(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `|${cells.map((cell) => (cell === "" ? " " : ` ${cell.replaceAll("|", "\\|")} `)).join("|")}|`;
  return [line(columns), `|${columns.map(() => "---").join("|")}|`, ...rows.map(line)].join("\n");
}

/**
 * A text with another table in the place of the one with these columns; what stands around it stays.
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
