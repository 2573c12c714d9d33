/** The input of another program. Descriptors that are not listed are closed in it. */
export interface ProgramStart {
  /** An absolute path, or one relative to the working directory, which the program inherits. */
  readonly file: string;
  /** The whole environment, each variable as `NAME=value`. */
  readonly environment: readonly string[];
  /** Our descriptors, each with its number in the program. */
  readonly descriptors: readonly (readonly [number: number, ours: number])[];
}

/** The state of a program: running, or how it ended. */
export type ProgramState =
  | { readonly kind: "running" }
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "signalled"; readonly signal: number };

/**
 * The calls that start and await another program. As in syscalls.ts, a negative result is minus the errno.
 *
 * Only the plugin uses them, to execute other IPAM plugins as the CNI specification demands (cni/delegation/).
 */
export interface ProgramCalls {
  /** Creates a file in memory with this content, opened for reading at its beginning. */
  memoryFile(content: Uint8Array): number;
  /** pipe2(2); both ends block. */
  pipe(): { readonly read: number; readonly write: number } | number;
  /**
   * posix_spawn(3) in a new process group, with default handlers and no blocked signal.
   *
   * @returns the process ID
   */
  spawn(start: ProgramStart): number;
  /** waitpid(2) without waiting. */
  state(pid: number): ProgramState | number;
  /** Kills the program and everything that it has started. */
  killGroup(pid: number): number;
  /** poll(2); entries as `pollEntries` makes them. */
  poll(entries: Uint8Array, milliseconds: number): number;
  read(fd: number, buffer: Uint8Array): number;
  close(fd: number): number;
}
