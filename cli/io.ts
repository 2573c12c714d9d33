import type { ObjectInput } from "./input/cluster/object_input.ts";
import type { ManifestFileSystem } from "./input/manifest_files.ts";
import type { Programs } from "./input/programs/programs.ts";
import type { NodeAccess } from "./node/machine/machine.ts";
import { styleText } from "node:util";
import type { Command } from "commander";

/** The outside world of a command: files, clusters, a node, programs that print manifests, and two streams for text. */
export interface Io {
  readonly files: ManifestFileSystem;
  readonly clusters: ObjectInput;
  /** The user's own programs, run only when the user asks for them. */
  readonly programs: Programs;
  /** The machine we run on; only commands about nodes open it. */
  readonly node: NodeAccess;
  /** Results, and nothing else. */
  readonly out: Output;
  /** Problems and remarks. */
  readonly err: Output;
}

export interface Output {
  /** Writes a text, without what a terminal would obey. */
  write(text: string): void;
  /** Writes a file such as an archive, as it is. */
  writeFile(bytes: Uint8Array): void;
  /** Whether its reader has ended, so that a command without an end ends, too. */
  readonly isClosed: boolean;
  /** Whether the output is a terminal, so that a person reads it as it appears. */
  readonly isTerminal: boolean;
  /** The characters in a line; for a file or a pipe, more than any output needs. */
  readonly columns: number;
  /** Only on terminals, and not where NO_COLOR is set (no-color.org) or TERM is `dumb`. */
  readonly hasColour: boolean;
}

/** The inputs and outputs of a command, and a function that sets its exit code. */
export interface Run {
  readonly io: Io;
  readonly end: (code: ExitCode) => void;
}

/** The exit codes of a command. */
export const ExitCode = {
  /** Allowed, no difference, clean. */
  YES: 0,
  /** Denied, differences, findings. */
  NO: 1,
  /** The command line is wrong. */
  USAGE: 2,
  /** The question could not be answered: an unreadable file, an invalid object, or a cluster that does not answer. */
  ERROR: 3,
} as const;

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/**
 * Returns the action of a command, which loads its code, runs it with the options, and ends with its exit code or with
 * its error in the command line.
 *
 * @param argument the name that the command's first argument has among the options
 */
export function actionOf(
  { io, end }: Run,
  load: () => Promise<(io: Io, options: unknown) => Promise<ExitCode | string>>,
  argument?: string,
): (this: Command) => Promise<void> {
  return async function (this: Command) {
    const run = await load();
    const given = argument === undefined ? {} : { [argument]: this.processedArgs[0] as unknown };
    const outcome = await run(io, { ...this.opts(), ...given });
    if (typeof outcome === "string") this.error(`error: ${outcome}`);
    else end(outcome);
  };
}

/** Functions that set words off for a person; without colour they return the text unchanged. */
export interface Style {
  /** Allowed, clean. */
  readonly good: (text: string) => string;
  /** Denied, a fault. */
  readonly bad: (text: string) => string;
  /** A name or a head. */
  readonly strong: (text: string) => string;
  /** Secondary information. */
  readonly faint: (text: string) => string;
}

/** Returns the style for an output. */
export function styleOf({ hasColour }: Pick<Output, "hasColour">): Style {
  const set = (format: Parameters<typeof styleText>[0]) => (text: string) =>
    hasColour && text !== "" ? styleText(format, text, { validateStream: false }) : text;
  return { good: set("green"), bad: set("red"), strong: set("bold"), faint: set("dim") };
}
