import type { Fields, Level, Logger } from "./logger.ts";
import { loggerOf } from "./logger.ts";

export interface RecordedLine {
  readonly level: Level;
  readonly message: string;
  readonly fields: Fields;
}

/** A logger for tests that keeps its lines. */
export function recordingLogger(): Logger & { readonly lines: readonly RecordedLine[] } {
  const lines: RecordedLine[] = [];
  return Object.freeze({
    ...loggerOf("debug", (level, message, fields) => lines.push({ level, message, fields })),
    lines,
  });
}
