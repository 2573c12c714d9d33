/** Returns one line of comma-separated values (RFC 4180), with its line end. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map((value) => quoted(String(value))).join(",")}\r\n`;
}

/** Quotes a value; one that a spreadsheet would read as a formula gets an apostrophe. */
function quoted(text: string): string {
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
