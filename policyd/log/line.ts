import type { Fields, Level } from "./logger.ts";

export const LOG_FORMATS = ["text", "json"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** Longer values are cut: a line that a reader cuts instead may end inside its quotes. */
const LONGEST_VALUE = 2000;

/** Everything a log line says. */
export interface Line {
  readonly time: Date;
  readonly level: Level;
  readonly message: string;
  readonly fields: Fields;
}

/** One line of text without its line end, as `2026-05-04T03:02:01.000Z warn  message key=value other="two words"`. */
export function textLine({ time, level, message, fields }: Line): string {
  const words = [time.toISOString(), level.padEnd(5), printable(message)];
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) words.push(`${printable(name)}=${textValue(value)}`);
  }
  return words.join(" ");
}

/** One line of JSON without its line end: keys `ts`, `level`, `msg` and the fields, which cannot replace those. */
export function jsonLine({ time, level, message, fields }: Line): string {
  const shown = Object.entries(fields).map(([name, value]) => [
    printable(name),
    typeof value === "string" ? printable(value) : value,
  ]);
  const reserved = { ts: time.toISOString(), level, msg: printable(message) };
  return JSON.stringify({ ...reserved, ...Object.fromEntries(shown), ...reserved });
}

/**
 * The text with everything that could end a line, move a cursor or reorder what is read written as `\u{…}`, and cut
 * where it is long: object names and kernel messages in a log are not ours.
 */
export function printable(text: string): string {
  return printableUpTo(text, LONGEST_VALUE);
}

/** The same, cut at a length of one's own. */
export function printableUpTo(text: string, longest: number): string {
  const cut = text.length <= longest ? text : `${text.slice(0, longest)}…`;
  // Control, format (bidirectional marks among them), surrogate and private characters, line and paragraph separators.
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** The first of some things in words, and how many more there are: `a, b and 3 more`. */
export function shortList<T>(all: readonly T[], most: number, textOf: (one: T) => string = String): string {
  const more = all.length - most;
  return `${all.slice(0, most).map(textOf).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function textValue(value: string | number | boolean): string {
  if (typeof value !== "string") return String(value);
  const text = printable(value);
  if (/^[^\s"=]+$/.test(text)) return text;
  // Also what escapes: a value that ends in a backslash, or quotes by one, would end its own quotes and begin another field.
  return `"${printable(value.replaceAll(/["\\]/g, "\\$&"))}"`;
}
