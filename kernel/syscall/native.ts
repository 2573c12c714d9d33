import type { MachineCalls } from "./machine_calls.ts";
import type { ProgramCalls } from "./program_calls.ts";

/**
 * The functions that the plugin's executable gives its modules (cni/native/): the system calls, and the little that
 * QuickJS lacks. Results are as in syscalls.ts.
 */
export interface NativeCalls extends MachineCalls, Omit<ProgramCalls, "state" | "read" | "close"> {
  /** waitpid(2) without waiting: the status as it gives it; -EAGAIN while the program runs. */
  wait(pid: number): number;
  exit(code: number): never;
  /** Prints an error's stack to standard error, with the lines of the TypeScript files. */
  printStack(error: unknown): void;
  /** Returns the hash of a text's UTF-8 in hexadecimal. */
  readonly sha256: (text: string) => string;
  encode(text: string): Uint8Array<ArrayBuffer>;
  /** @throws TypeError for malformed bytes if `isFatal`; otherwise each becomes U+FFFD */
  decode(bytes: Uint8Array, isFatal: boolean, isMarkKept: boolean): string;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  pause(milliseconds: number): void;
  /** Returns the exports of a module by its path in the project, but for its ending; it is carried out on its first use. */
  load(module: string): unknown;
}

declare global {
  /** Exists in the plugin's executable only. */
  var native: NativeCalls;
}
