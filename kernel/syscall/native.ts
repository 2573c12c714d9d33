import { type BpfCall, type BpfCalls, setAddresses } from "./bpf_calls.ts";
import { Errno } from "./errno.ts";
import type { MachineCalls } from "./machine_calls.ts";
import type { ProgramCalls } from "./program_calls.ts";

/**
 * The functions that the plugin's executable gives its modules (cni/native/): the system calls, and the little that
 * QuickJS lacks. Results are as in syscalls.ts.
 */
export interface NativeCalls
  extends Omit<MachineCalls, keyof BpfCalls>, Omit<ProgramCalls, "state" | "read" | "close"> {
  /** bpf(2) with attributes that have their addresses. */
  bpf(command: number, attributes: Uint8Array): number;
  /** Returns the address of an array's bytes, valid while the array is referenced. */
  readonly addressOf: (array: Uint8Array) => bigint;
  /** waitpid(2) without waiting: returns the status of a program that has ended, and -EAGAIN while it runs. */
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
  /**
   * Returns the exports of a module, which is carried out on its first use.
   *
   * @param module its path in the project, with the ending ".js"
   */
  load(module: string): unknown;
}

declare global {
  /** Exists in the plugin's executable only. */
  var native: NativeCalls;
}

/** Returns the system calls in the plugin's executable. */
export function nativeMachineCalls(): MachineCalls {
  const native: NativeCalls = globalThis.native;
  const bpf: BpfCall = (command, attributes, arrays) => {
    setAddresses(attributes, arrays, native.addressOf);
    return native.bpf(command, attributes);
  };
  return { ...native, bpf, openBpf: bpf };
}

/** Returns the calls that start programs, in the plugin's executable. */
export function nativeProgramCalls(): ProgramCalls {
  const native: NativeCalls = globalThis.native;
  return {
    ...native,
    state(pid) {
      const status = native.wait(pid);
      if (status === -Errno.EAGAIN) return { kind: "running" };
      if (status < 0) return status;
      const signal = status & 0x7f;
      return signal === 0 ? { kind: "exited", code: (status >> 8) & 0xff } : { kind: "signalled", signal };
    },
  };
}
