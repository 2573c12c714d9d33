import { type Command, Option } from "commander";

export const VALIDATIONS = ["strict", "warn"] as const;

/** How to read files. */
export interface Reading {
  /** Patterns of files to omit, as for {@link excludes}. */
  readonly exclude?: readonly string[] | undefined;
  /** How to treat a policy with a field that the API does not have; undefined accepts it. */
  readonly validate?: (typeof VALIDATIONS)[number] | undefined;
  /** Whether to omit kinds that would change answers but are not understood. */
  readonly ignoreUnsupported?: boolean | undefined;
  /** Whether to read objects by which connections come in; otherwise they are ignored like any other kind. */
  readonly waysIn?: boolean | undefined;
  /** Omits the line that says what was read. */
  readonly quiet?: boolean | undefined;
}

/** Adds the options that say how objects are read (`readingEntries` of input_schema.ts). */
export function withReading(command: Command): Command {
  return command
    .option("--exclude <pattern...>", "files that are not read, such as values.yaml, charts or 'test/**/*.yaml'")
    .addOption(
      new Option("--validate <how>", "what becomes of policies with fields that the API does not have")
        .choices(VALIDATIONS)
        .default("strict"),
    )
    .option("--ignore-unsupported", "go on without objects of kinds that are not understood", false)
    .option("--quiet", "do not print what was read", false);
}

/**
 * Returns whether a pattern matches a path. `*` stands for anything but a slash, `**` for anything, `?` for one
 * character. A pattern without a slash applies to the name of the file or of a directory above it; any other to the
 * path from the working directory, or to its end.
 */
export function excludes(pattern: string, path: string): boolean {
  const wanted = pattern.replace(/^\.\//, "").replace(/\/+$/, "");
  const given = path.replace(/^\.\//, "");
  const body = wanted
    .split(/(\*\*\/?|\*|\?)/)
    .map((part) => {
      if (part.startsWith("**")) return part.endsWith("/") ? "(?:.*/)?" : ".*";
      if (part === "*") return "[^/]*";
      return part === "?" ? "[^/]" : part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
    })
    .join("");
  return new RegExp(`^(?:.*/)?${body}(?:/.*)?$`, "s").test(given);
}
