/** Returns one line of comma-separated values (RFC 4180), with its line end. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map(csvValue).join(",")}\r\n`;
}

/** Returns a value, quoted where necessary; one that a spreadsheet would read as a formula gets an apostrophe. */
export function csvValue(value: string | number | boolean): string {
  const text = String(value);
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
