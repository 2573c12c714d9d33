/** One line of comma-separated values (RFC 4180), with its line end. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map((value) => quoted(String(value))).join(",")}\r\n`;
}

/** Also where a spreadsheet would take the text for a formula. */
function quoted(text: string): string {
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
