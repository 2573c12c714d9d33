import { createLogger, format, transports } from "winston";
import type { Clock } from "../lib/clock.ts";
import { jsonLine, type Line, type LogFormat, textLine } from "./line.ts";
import { type Level, LEVELS, type Logger, loggerOf } from "./logger.ts";
import { PacedLines } from "./paced_lines.ts";

interface LoggerOptions {
  readonly level: Level;
  readonly format: LogFormat;
}

/**
 * Returns the daemon's log on a stream, one line for each entry.
 *
 * Frequent lines of one message are written later, as {@link PacedLines} describes, except those of level debug.
 *
 * @param stream standard error, which is written synchronously
 */
export function winstonLogger(
  options: LoggerOptions,
  stream: NodeJS.WritableStream,
  clock: Pick<Clock, "after" | "now">,
): Logger {
  const print = options.format === "json" ? jsonLine : textLine;
  const winston = createLogger({
    levels: Object.fromEntries(LEVELS.map((level, rank) => [level, rank])),
    level: options.level,
    // The message is a finished line: winston's own formats would let a field overwrite it.
    format: format.printf(({ message }) => String(message)),
    transports: [new transports.Stream({ stream, eol: "\n" })],
  });
  const write = (line: Line): void => void winston.log(line.level, print(line));
  const paced = new PacedLines(clock, write);
  return loggerOf(options.level, (level, message, fields, namespace) => {
    const line = { time: new Date(), message, fields };
    if (level === "debug") write({ ...line, level });
    else paced.add({ ...line, level }, namespace);
  });
}
