/** From what stops the daemon's work to what only its authors read. */
export const LEVELS = ["error", "warn", "info", "debug"] as const;

export type Level = (typeof LEVELS)[number];

/** What a line is about, by name; undefined values are left out. */
export type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * The daemon's log.
 *
 * A message is a constant text, so that its repetitions can be told and limited; what varies goes into the fields. A line that the
 * author of an object or a pod can bring about has the namespace of that author, empty where it has none: namespaces have their turns.
 */
export interface Logger {
  error(message: string, fields?: Fields, namespace?: string): void;
  warn(message: string, fields?: Fields, namespace?: string): void;
  info(message: string, fields?: Fields, namespace?: string): void;
  debug(message: string, fields?: Fields, namespace?: string): void;
}

/** A logger over one function, which gets every line of at least this level. */
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
