import { type Fields, type Level, type Logger, loggerOf } from "../../policyd/log/logger.ts";

export interface RecordedLine {
  readonly level: Level;
  readonly message: string;
  readonly fields: Fields;
}

/** Returns a logger for tests that records its lines, and the namespace of each. */
export function recordingLogger(): Logger & {
  readonly lines: readonly RecordedLine[];
  readonly namespaces: readonly string[];
} {
  const lines: RecordedLine[] = [];
  const namespaces: string[] = [];
  return Object.freeze({
    ...loggerOf("debug", (level, message, fields, namespace) => {
      lines.push({ level, message, fields });
      namespaces.push(namespace);
    }),
    lines,
    namespaces,
  });
}
