import type { FileReadCalls } from "../syscall/file_calls.ts";
import {
  atOwnProgram,
  attachOwnProgram,
  findOrAttach,
  type OwnProgram,
  type ProgramCalls,
  unlessRefused,
} from "./own_program.ts";

/**
 * The program of {@link checksumProgram}. The kernel lets only programs under the GPL read a packet's struct sk_buff, so
 * this one is offered under the MIT licence and the GPL, besides the project's own.
 */
export const CHECKSUM_PROGRAM: OwnProgram = {
  name: "drawbridge_sum1",
  frames: "received",
  licence: "Dual MIT/GPL",
  place: "first",
};

type Calls = ProgramCalls & FileReadCalls;

/**
 * Makes a bridge drop each packet that it receives whose checksum is to be written anywhere but where a checksum is, so
 * that nothing changes in a packet after the rules have seen it.
 *
 * @param bridge the bridge's index, in the calling thread's network namespace
 * @param programFor is called where the bridge has no such program; returns the one for this kernel, or undefined
 * @returns whether it does; false where the kernel has no such programs (before 6.6, without BPF or BTF, locked down) or
 *   the caller may not load one (CAP_BPF, CAP_PERFMON)
 */
export function filterChecksums(
  calls: Calls,
  bridge: number,
  programFor: (calls: Calls) => Uint8Array | undefined,
): boolean {
  const isAttached = unlessRefused(() =>
    findOrAttach(
      calls,
      { ...CHECKSUM_PROGRAM, link: bridge },
      (attached) => atOwnProgram(calls, CHECKSUM_PROGRAM, attached, () => true),
      (attached) => {
        const program = programFor(calls);
        if (program === undefined) return false;
        return attachOwnProgram(calls, CHECKSUM_PROGRAM, program, bridge, attached) ? true : undefined;
      },
    ),
  );
  return isAttached === true;
}
