import type { Fields, Level } from "./logger.ts";

export const LOG_FORMATS = ["text", "json"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

/** Longer values are truncated: if a log reader truncated the line instead, it might end inside quotes. */
const LONGEST_VALUE = 2000;

/** The content of a log line. */
export interface Line {
  readonly time: Date;
  readonly level: Level;
  readonly message: string;
  readonly fields: Fields;
}

/** Returns a line without its end, such as `2026-05-04T03:02:01.000Z warn  message key=value other="two words"`. */
export function textLine({ time, level, message, fields }: Line): string {
  const words = [time.toISOString(), level.padEnd(5), printable(message)];
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) words.push(`${printable(name)}=${textValue(value)}`);
  }
  return words.join(" ");
}

/** Returns a line of JSON without its end: keys `ts`, `level`, `msg` and the fields, which cannot replace these. */
export function jsonLine({ time, level, message, fields }: Line): string {
  const shown = Object.entries(fields).map(([name, value]) => [
    printable(name),
    typeof value === "string" ? printable(value) : value,
  ]);
  const reserved = { ts: time.toISOString(), level, msg: printable(message) };
  return JSON.stringify({ ...reserved, ...Object.fromEntries(shown), ...reserved });
}

/**
 * Returns a text, truncated where it is long, with everything that could end a line, move a cursor or reorder text
 * written as `\u{…}`: object names and kernel messages in a log are not ours.
 */
export function printable(text: string): string {
  return printableUpTo(text, LONGEST_VALUE);
}

/** Does the same with a given maximum length. */
export function printableUpTo(text: string, longest: number): string {
  const cut = text.length <= longest ? text : `${text.slice(0, longest)}…`;
  // Control, format (including bidirectional marks), surrogate and private characters, line and paragraph separators.
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** Lists the first items in words, and how many more there are: `a, b and 3 more`. */
export function shortList<T>(all: readonly T[], most: number, textOf: (one: T) => string = String): string {
  const more = all.length - most;
  return `${all.slice(0, most).map(textOf).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function textValue(value: string | number | boolean): string {
  if (typeof value !== "string") return String(value);
  const text = printable(value);
  if (/^[^\s"=]+$/.test(text)) return text;
  // Also escapes backslashes, with which a value could close its own quotes and start another field.
  return `"${printable(value.replaceAll(/["\\]/g, "\\$&"))}"`;
}
