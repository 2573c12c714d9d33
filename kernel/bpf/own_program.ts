import type { BpfCalls } from "../syscall/bpf_calls.ts";
import { Errno } from "../syscall/errno.ts";
import { SyscallError, type Syscalls } from "../syscall/syscalls.ts";
import {
  type AttachedPrograms,
  attachProgram,
  describeProgram,
  detachProgram,
  type Licence,
  loadProgram,
  openProgram,
  type ProgramHook,
  programsOf,
} from "./object.ts";

export type ProgramCalls = BpfCalls & Pick<Syscalls, "close">;

/** A program of ours. It is recognized by its name, whose number is its version. */
export interface OwnProgram extends Pick<ProgramHook, "frames"> {
  readonly name: string;
  readonly licence: Licence;
  /** Where it is put among the programs that are there: one that lets a frame pass keeps it from those after it. */
  readonly place: "first" | "last";
}

/** The number of attempts to attach a program when the list of programs changes in the meantime. */
const TRIES = 4;

/**
 * Returns what `find` finds among the programs at a hook, or else the result of `attach`.
 *
 * @param attach returns undefined when the list has changed since it was read; it is then read again, some times
 * @returns undefined when the list has changed each time
 * @throws SyscallError
 */
export function findOrAttach<T>(
  calls: BpfCalls,
  hook: ProgramHook,
  find: (attached: AttachedPrograms) => T | undefined,
  attach: (attached: AttachedPrograms) => T | undefined,
): T | undefined {
  for (let tries = 0; tries < TRIES; tries++) {
    const attached = programsOf(calls, hook);
    const found = find(attached) ?? attach(attached);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Loads a program and attaches it to a link, which keeps it until it goes.
 *
 * @returns false when the list has changed since it was read
 * @throws SyscallError
 */
export function attachOwnProgram(
  calls: ProgramCalls,
  { name, licence, frames, place }: OwnProgram,
  instructions: Uint8Array,
  link: number,
  attached: AttachedPrograms,
): boolean {
  const program = loadProgram(calls, name, licence, instructions);
  try {
    return attachProgram(calls, program, { link, frames }, attached, place);
  } finally {
    calls.close(program);
  }
}

/** @param action receives the descriptor of our program among these, and the ids of its maps in the program's order */
export function atOwnProgram<T>(
  calls: ProgramCalls,
  own: OwnProgram,
  { ids }: AttachedPrograms,
  action: (program: number, maps: readonly number[]) => T | undefined,
): T | undefined {
  for (const id of ids) {
    const program = openProgram(calls, id);
    // The program has gone since the list was read.
    if (program === undefined) continue;
    try {
      const { name, maps } = describeProgram(calls, program);
      const result = name === own.name ? action(program, maps) : undefined;
      if (result !== undefined) return result;
    } finally {
      calls.close(program);
    }
  }
  return undefined;
}

/**
 * Tells whether a program of ours is attached to a link; false where the kernel has no such programs.
 *
 * @throws SyscallError EPERM for a caller that may not know (CAP_NET_ADMIN; where there are programs, CAP_SYS_ADMIN),
 *   ENOSYS under our profile for seccomp, or without BPF
 */
export function hasOwnProgram(calls: ProgramCalls, own: OwnProgram, link: number): boolean {
  try {
    return atOwnProgram(calls, own, programsOf(calls, { ...own, link }), () => true) ?? false;
  } catch (error) {
    if (error instanceof SyscallError && error.errno !== Errno.EPERM && error.errno !== Errno.ENOSYS) return false;
    throw error;
  }
}

/** Detaches a program of ours from a link that has it. @throws SyscallError */
export function removeOwnProgram(calls: ProgramCalls, own: OwnProgram, link: number): void {
  const hook = { ...own, link };
  atOwnProgram(calls, own, programsOf(calls, hook), (program) => detachProgram(calls, program, hook));
}

/** Returns undefined when a system call fails. The reason does not matter: the bridge works without our programs. */
export function unlessRefused<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof SyscallError) return undefined;
    throw error;
  }
}
