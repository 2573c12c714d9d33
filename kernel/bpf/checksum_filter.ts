import type { FileReadCalls } from "../syscall/file_calls.ts";
import {
  attachOwnProgram,
  findOwnProgram,
  OWN_HANDLE,
  type OwnProgram,
  type ProgramMachine,
  unlessRefused,
} from "./own_program.ts";

/**
 * The program of {@link checksumProgram}. The kernel lets only programs under the GPL read a packet's struct sk_buff, so
 * this one is offered under the MIT licence and the GPL, besides the project's own.
 */
export const CHECKSUM_PROGRAM: OwnProgram = {
  name: "drawbridge_sum1",
  licence: "Dual MIT/GPL",
  place: { frames: "received", priority: 1, handle: OWN_HANDLE },
};

type Machine = ProgramMachine & { readonly syscalls: FileReadCalls };

/**
 * Makes a bridge drop each packet that it receives whose checksum is to be written anywhere but where a checksum is, so
 * that nothing changes in a packet after the rules have seen it.
 *
 * @param bridge the bridge's index
 * @param programFor is called where the bridge has no such program; returns the one for this kernel, or undefined
 * @returns whether it does; false where the kernel has no such programs (without BPF, BTF or NET_CLS_BPF, locked down)
 *   or the caller may not load one (CAP_BPF, CAP_PERFMON)
 */
export function filterChecksums(
  machine: Machine,
  bridge: number,
  programFor: (files: FileReadCalls) => Uint8Array | undefined,
): boolean {
  const isThere = unlessRefused(() => {
    if (findOwnProgram(machine, CHECKSUM_PROGRAM, bridge) !== undefined) return true;
    const program = programFor(machine.syscalls);
    if (program === undefined) return false;
    const isAttached = attachOwnProgram(machine, CHECKSUM_PROGRAM, program, bridge);
    return isAttached || findOwnProgram(machine, CHECKSUM_PROGRAM, bridge) !== undefined;
  });
  return isThere === true;
}
