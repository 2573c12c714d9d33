import { readBytes } from "../file.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import { readBtf } from "./btf.ts";
import { checksumProgram } from "./checksum_program.ts";
import { assembleBpf } from "./instruction.ts";
import {
  atOwnProgram,
  attachOwnProgram,
  findOrAttach,
  type OwnProgram,
  type ProgramCalls,
  unlessRefused,
} from "./own_program.ts";
import { packetLayout } from "./packet_layout.ts";

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

/** The kernel's description of its types (CONFIG_DEBUG_INFO_BTF), and more than its size: 6 MB in Linux 6.18. */
const KERNEL_TYPES = "/sys/kernel/btf/vmlinux";
const LARGEST = 64 * 1024 * 1024;

type Calls = ProgramCalls & FileReadCalls;

/** The program for this kernel, once its types have been read; undefined when it does not describe its packets. */
const programs = new WeakMap<Calls, Uint8Array | undefined>();

/**
 * Makes a bridge drop each packet that it receives whose checksum is to be written anywhere but where a checksum is, so
 * that nothing changes in a packet after the rules have seen it.
 *
 * @param bridge the bridge's index, in the calling thread's network namespace
 * @returns whether it does; false where the kernel has no such programs (before 6.6, without BPF or BTF, locked down) or
 *   the caller may not load one (CAP_BPF, CAP_PERFMON)
 */
export function filterChecksums(calls: Calls, bridge: number): boolean {
  const isAttached = unlessRefused(() =>
    findOrAttach(
      calls,
      { ...CHECKSUM_PROGRAM, link: bridge },
      (attached) => atOwnProgram(calls, CHECKSUM_PROGRAM, attached, () => true),
      (attached) => {
        const program = programHere(calls);
        if (program === undefined) return false;
        return attachOwnProgram(calls, CHECKSUM_PROGRAM, program, bridge, attached) ? true : undefined;
      },
    ),
  );
  return isAttached === true;
}

function programHere(calls: Calls): Uint8Array | undefined {
  if (!programs.has(calls)) programs.set(calls, assembledHere(calls));
  return programs.get(calls);
}

function assembledHere(calls: FileReadCalls): Uint8Array | undefined {
  const bytes = readBytes(calls, KERNEL_TYPES, LARGEST);
  const btf = bytes && readBtf(bytes);
  const layout = btf && packetLayout(btf);
  return layout && assembleBpf(checksumProgram(layout));
}
