import type { Machine } from "./system_call.ts";
import { align } from "./image.ts";

/** A segment of the file and of the process's memory. */
export interface Segment {
  readonly flags: number;
  readonly offset: number;
  readonly address: number;
  readonly contents: Uint8Array;
  /** The size in memory, where zeros follow the contents. */
  readonly memorySize: number;
}

/** PF_X, PF_W, PF_R: elf(5). */
export const SegmentFlag = { EXECUTE: 1, WRITE: 2, READ: 4 } as const;

/** The address of the file's first byte in memory, as usual on both machines. */
export const BASE_ADDRESS = 0x400000;

/** The largest page of the two machines (arm64 kernels may have 64 KiB); no two segments share one. */
export const PAGE = 0x10000;

const HEADER_SIZE = 64;
const PROGRAM_HEADER_SIZE = 56;
const PROGRAM_HEADERS = 3;

/** The file offset of the code, after the headers. */
export const CODE_OFFSET = align(HEADER_SIZE + PROGRAM_HEADERS * PROGRAM_HEADER_SIZE, 16);

const PT_LOAD = 1;
const PT_GNU_STACK = 0x6474e551;
/** EM_X86_64, EM_AARCH64. */
const machines: Readonly<Record<Machine, number>> = { x64: 62, arm64: 183 };

/**
 * Returns the address for the file's contents at an offset, in pages of their own: equal to the offset modulo the page,
 * as elf(5) demands of PT_LOAD, and above the segment before.
 */
export function addressOfSecondSegment(offset: number): number {
  return BASE_ADDRESS + align(offset, PAGE) + (offset % PAGE);
}

/**
 * Returns a static executable of two segments, ELF64, little-endian (System V gABI, chapters 4 and 5: "ELF Header",
 * "Program Header").
 *
 * It has no interpreter, sections or relocations. PT_GNU_STACK without PF_X: no memory is both writable and executable
 * (fs/binfmt_elf.c, EXSTACK_DISABLE_X).
 *
 * @param first begins at offset 0; its contents keep {@link CODE_OFFSET} bytes free for the headers
 */
export function executableFile(machine: Machine, first: Segment, second: Segment): Uint8Array {
  const file = new Uint8Array(second.offset + second.contents.length);
  file.set(first.contents, first.offset);
  file.set(second.contents, second.offset);
  const view = new DataView(file.buffer);
  // e_ident: magic, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0]);
  view.setUint16(16, 2, true); // e_type: ET_EXEC
  view.setUint16(18, machines[machine], true); // e_machine
  view.setUint32(20, 1, true); // e_version
  view.setBigUint64(24, BigInt(BASE_ADDRESS + CODE_OFFSET), true); // e_entry
  view.setBigUint64(32, BigInt(HEADER_SIZE), true); // e_phoff
  view.setUint16(52, HEADER_SIZE, true); // e_ehsize
  view.setUint16(54, PROGRAM_HEADER_SIZE, true); // e_phentsize
  view.setUint16(56, PROGRAM_HEADERS, true); // e_phnum
  view.setUint16(58, 64, true); // e_shentsize
  for (const [index, segment] of [first, second].entries()) {
    const { flags, offset, address, contents, memorySize } = segment;
    const size = contents.length;
    programHeader(view, index, { type: PT_LOAD, flags, offset, address, size, memorySize, alignment: PAGE });
  }
  const stack = { type: PT_GNU_STACK, flags: SegmentFlag.READ | SegmentFlag.WRITE };
  programHeader(view, 2, { ...stack, offset: 0, address: 0, size: 0, memorySize: 0, alignment: 16 });
  return file;
}

interface ProgramHeader {
  readonly type: number;
  readonly flags: number;
  readonly offset: number;
  readonly address: number;
  readonly size: number;
  readonly memorySize: number;
  readonly alignment: number;
}

/** Elf64_Phdr: p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align. */
function programHeader(view: DataView, index: number, header: ProgramHeader): void {
  const { type, flags, offset, address, size, memorySize, alignment } = header;
  const start = HEADER_SIZE + index * PROGRAM_HEADER_SIZE;
  view.setUint32(start, type, true);
  view.setUint32(start + 4, flags, true);
  for (const [position, value] of [offset, address, address, size, memorySize, alignment].entries())
    view.setBigUint64(start + 8 + position * 8, BigInt(value), true);
}
