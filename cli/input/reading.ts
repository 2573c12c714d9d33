import type { Command } from "commander";
import { Option } from "commander";

export const VALIDATIONS = ["strict", "warn"] as const;

/** How files are read. */
export interface Reading {
  /** Files that are not read, as patterns of {@link excludes}. */
  readonly exclude?: readonly string[] | undefined;
  /** What becomes of a policy with a field that the API does not have; where nothing is said, nothing. */
  readonly validate?: (typeof VALIDATIONS)[number] | undefined;
  /** Whether kinds that would change answers, and are not understood, are left out. */
  readonly ignoreUnsupported?: boolean | undefined;
  /** Whether objects by which connections come in are read; without it they are ignored as any other kind. */
  readonly waysIn?: boolean | undefined;
  /** Without the line that says what was read. */
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
 * Whether a path is one that a pattern means. In patterns `*` is for anything but a slash, `**` for anything, `?` for one sign. A pattern
 * without a slash is about the name of the file or of a directory above it, others about the path from where the command runs, or its end.
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
