import { printable } from "../../objects/printable.ts";
import type { Fields, Level } from "./logger.ts";

export const LOG_FORMATS = ["text", "json"] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

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

function textValue(value: string | number | boolean): string {
  if (typeof value !== "string") return String(value);
  const text = printable(value);
  if (/^[^\s"=]+$/.test(text)) return text;
  // Also escapes backslashes, with which a value could close its own quotes and start another field.
  return `"${printable(value.replaceAll(/["\\]/g, "\\$&"))}"`;
}
