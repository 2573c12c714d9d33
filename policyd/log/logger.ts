/** From lines about work that has stopped to those only for Drawbridge's authors. */
export const LEVELS = ["error", "warn", "info", "debug"] as const;

export type Level = (typeof LEVELS)[number];

/** The values of a line, by name; undefined values are omitted. */
export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * The daemon's log.
 *
 * A message is a constant text, so that its repetitions can be recognised and limited; variable parts belong in the
 * fields. A line that the author of an object or a pod can cause has that author's namespace, or an empty one if there
 * is none: waiting lines are written by turns of namespaces.
 */
export interface Logger {
  error(message: string, fields?: Fields, namespace?: string): void;
  warn(message: string, fields?: Fields, namespace?: string): void;
  info(message: string, fields?: Fields, namespace?: string): void;
  debug(message: string, fields?: Fields, namespace?: string): void;
}

/** Returns a logger that passes every line of at least this level to one function. */
export function loggerOf(
  least: Level,
  write: (level: Level, message: string, fields: Fields, namespace: string) => void,
): Logger {
  const at =
    (level: Level) =>
    (message: string, fields: Fields = {}, namespace = ""): void => {
      if (LEVELS.indexOf(level) <= LEVELS.indexOf(least)) write(level, message, fields, namespace);
    };
  return Object.freeze({ error: at("error"), warn: at("warn"), info: at("info"), debug: at("debug") });
}
