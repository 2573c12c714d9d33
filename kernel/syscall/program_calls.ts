/** The input of another program. All descriptors that are not named are closed in it. */
export interface ProgramStart {
  /** An absolute path, or one relative to the working directory, which the program gets, too. */
  readonly file: string;
  /** `NAME=value`, and nothing else is in its environment. */
  readonly environment: readonly string[];
  /** Descriptors of ours, by the number that each has in the program. */
  readonly descriptors: readonly (readonly [number: number, ours: number])[];
}

/** Whether a program runs, or how it ended. */
export type ProgramState =
  | { readonly kind: "running" }
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "signalled"; readonly signal: number };

/**
 * The calls that start another program and wait for it. Results are as in {@link ./syscalls.ts}: negative is minus the errno.
 *
 * Only the plugin uses them, to execute IPAM plugins of others as the CNI specification demands (cni/delegation/).
 */
export interface ProgramCalls {
  /** A file in memory with this content, opened for reading at its beginning. */
  memoryFile(content: Uint8Array): number;
  /** pipe2(2); both ends block. */
  pipe(): { readonly read: number; readonly write: number } | number;
  /**
   * posix_spawn(3): in a process group of its own, with default handlers and no blocked signal.
   *
   * @returns the process ID
   */
  spawn(start: ProgramStart): number;
  /** waitpid(2) without waiting. */
  state(pid: number): ProgramState | number;
  /** Kills the program and what it has started. */
  killGroup(pid: number): number;
  /** poll(2); entries as `pollEntries` makes them. */
  poll(entries: Uint8Array, milliseconds: number): number;
  read(fd: number, buffer: Uint8Array): number;
  close(fd: number): number;
}
