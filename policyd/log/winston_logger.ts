import { createLogger, format, transports } from "winston";
import type { LogFormat } from "./line.ts";
import { jsonLine, textLine } from "./line.ts";
import type { Fields, Level, Logger } from "./logger.ts";
import { LEVELS, loggerOf } from "./logger.ts";
import { RateLimit } from "./rate_limit.ts";

/** The same warning or error so often a minute; then one line says how many were left out. */
const MOST_REPETITIONS = 20;
const WINDOW_MILLISECONDS = 60_000;

interface LoggerOptions {
  readonly level: Level;
  readonly format: LogFormat;
}

/**
 * The daemon's log on a stream, one line an entry.
 *
 * Warnings and errors of one message are limited; the next that is written again says in `suppressed` how many were not.
 *
 * @param stream standard error, where it is written before the call returns
 */
export function winstonLogger(options: LoggerOptions, stream: NodeJS.WritableStream): Logger {
  const print = options.format === "json" ? jsonLine : textLine;
  const winston = createLogger({
    levels: Object.fromEntries(LEVELS.map((level, rank) => [level, rank])),
    level: options.level,
    // The message is a finished line: winston's own formats would let a field overwrite what we say.
    format: format.printf(({ message }) => String(message)),
    transports: [new transports.Stream({ stream, eol: "\n" })],
  });
  const limit = new RateLimit(MOST_REPETITIONS, WINDOW_MILLISECONDS);
  const write = (level: Level, message: string, fields: Fields): void => {
    const isLimited = level === "warn" || level === "error";
    const suppressed = isLimited ? limit.admit(`${level} ${message}`, performance.now()) : 0;
    if (suppressed === undefined) return;
    const more = suppressed === 0 ? {} : { suppressed };
    winston.log(level, print({ time: new Date(), level, message, fields: { ...fields, ...more } }));
  };
  return loggerOf(options.level, write);
}
