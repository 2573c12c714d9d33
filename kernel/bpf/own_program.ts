import { NetlinkError } from "../netlink/error.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { BpfCalls } from "../syscall/bpf_calls.ts";
import { SyscallError, type Syscalls } from "../syscall/syscalls.ts";
import {
  addProgram,
  deleteProgram,
  getProgram,
  parseProgram,
  type ProgramFilter,
  type ProgramPlace,
} from "../traffic_control/program_filter.ts";
import { addClassifiers } from "../traffic_control/queueing_discipline.ts";
import { type Licence, loadProgram } from "./object.ts";

/** The parts of the machine that programs need: bpf(2), and a netlink socket for links. */
export interface ProgramMachine {
  readonly syscalls: BpfCalls & Pick<Syscalls, "close">;
  readonly socket: Pick<NetlinkSocket, "batch">;
}

/** A program of ours. It is recognized by its name, whose number is its version. */
export interface OwnProgram {
  readonly name: string;
  readonly licence: Licence;
  /** A program that lets a frame pass keeps it from those after it. */
  readonly place: ProgramPlace;
}

/** The handle of our programs; other programs let the kernel choose, which begins at 1. */
export const OWN_HANDLE = 0xdb01;

/** The kernel's errors where a link has no classifiers, none of this kind, or none at this place. */
const NOTHING_THERE = ["ENOENT", "EINVAL"];

/** Returns our program at a link; undefined when it has none. @throws NetlinkError */
export function findOwnProgram(
  { socket }: Pick<ProgramMachine, "socket">,
  { name, place }: OwnProgram,
  link: number,
): ProgramFilter | undefined {
  const [reply] = socket.batch([getProgram(link, place)]);
  if (reply?.error !== undefined && !NOTHING_THERE.includes(reply.error.errnoName)) throw reply.error;
  const found = reply?.messages[0] && parseProgram(reply.messages[0]);
  return found?.name === name ? found : undefined;
}

/** Returns whether a link has our program; false also where the kernel refuses to say, as without classifiers. */
export function hasOwnProgram(machine: Pick<ProgramMachine, "socket">, own: OwnProgram, link: number): boolean {
  return unlessRefused(() => findOwnProgram(machine, own, link)) !== undefined;
}

/**
 * Loads a program and has the kernel call it at a link, which keeps it until it goes.
 *
 * Filters are used and not TCX, which kernels before 6.6 lack, and for which the kernel waits for a grace period of RCU
 * each time (tcx_prog_attach of kernel/bpf/tcx.c), so that the first ADD after a boot took twice as long.
 *
 * @returns false when another process was faster
 * @throws SyscallError, NetlinkError when the kernel refuses it
 */
export function attachOwnProgram(
  { syscalls, socket }: ProgramMachine,
  { name, licence, place }: OwnProgram,
  instructions: Uint8Array,
  link: number,
): boolean {
  const program = loadProgram(syscalls, name, licence, instructions);
  try {
    const error = socket.batch([addClassifiers(link), addProgram(link, place, name, program)])[1]?.error;
    if (error !== undefined && error.errnoName !== "EEXIST") throw error;
    return error === undefined;
  } finally {
    syscalls.close(program);
  }
}

/** Removes a program of ours from a link that has it. The link keeps its place for classifiers. @throws NetlinkError */
export function removeOwnProgram(machine: Pick<ProgramMachine, "socket">, own: OwnProgram, link: number): void {
  if (findOwnProgram(machine, own, link) === undefined) return;
  const [reply] = machine.socket.batch([deleteProgram(link, own.place)]);
  if (reply?.error !== undefined) throw reply.error;
}

/** Returns undefined when the kernel refuses. The reason does not matter: the bridge works without our programs. */
export function unlessRefused<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof SyscallError || error instanceof NetlinkError) return undefined;
    throw error;
  }
}
