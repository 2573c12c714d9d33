import type { ObjectInput } from "./input/cluster/object_input.ts";
import type { ManifestFileSystem } from "./input/manifest_files.ts";
import type { Programs } from "./input/programs/programs.ts";
import type { NodeAccess } from "./node/machine/machine.ts";

/** What the command line has of the world: files, clusters and a node to read, programs that print manifests, and two streams of text to write. */
export interface Io {
  readonly files: ManifestFileSystem;
  readonly clusters: ObjectInput;
  /** The user's own programs, for those who ask for them. */
  readonly programs: Programs;
  /** The machine we run on; only commands about nodes open it. */
  readonly node: NodeAccess;
  /** Results, and nothing else. */
  readonly out: Output;
  /** Problems and remarks. */
  readonly err: Output;
}

export interface Output {
  write(text: string): void;
  /** Whether a person looks on. */
  readonly isTerminal: boolean;
  /** Characters in a line; of a file or a pipe more than anybody uses. */
  readonly columns: number;
  /** Only on terminals, and not where NO_COLOR is set (no-color.org) or TERM is `dumb`. */
  readonly hasColour: boolean;
}
