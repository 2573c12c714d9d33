import type { ExitCode } from "./exit_code.ts";
import type { ObjectInput } from "./input/cluster/object_input.ts";
import type { ManifestFileSystem } from "./input/manifest_files.ts";
import type { Programs } from "./input/programs/programs.ts";
import type { NodeAccess } from "./node/machine/machine.ts";

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
  end(code: ExitCode): void;
}
