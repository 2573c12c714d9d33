import { littleEndian } from "../netlink/writer.ts";

/** A register: r0 has results, r1 to r5 a call's arguments, r6 to r9 survive calls, r10 is the end of the stack. */
export type BpfRegister = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10;

/** The number of bytes that one instruction reads or writes. */
export type BpfWidth = 2 | 4;

/** An instruction of a BPF program (Documentation/bpf/standardization/instruction-set.rst), or a label to jump to. */
export type BpfInstruction =
  | { readonly do: "label"; readonly name: string }
  | { readonly do: "set"; readonly to: BpfRegister; readonly value: number }
  | { readonly do: "copy"; readonly to: BpfRegister; readonly from: BpfRegister }
  | { readonly do: "add"; readonly to: BpfRegister; readonly value: number }
  | { readonly do: "and"; readonly to: BpfRegister; readonly value: number }
  | { readonly do: "from network order"; readonly to: BpfRegister; readonly width: BpfWidth }
  | {
      readonly do: "load";
      readonly to: BpfRegister;
      readonly from: BpfRegister;
      readonly at: number;
      readonly width: BpfWidth;
    }
  | {
      readonly do: "store";
      readonly from: BpfRegister;
      readonly to: BpfRegister;
      readonly at: number;
      readonly width: BpfWidth;
    }
  | { readonly do: "load map"; readonly to: BpfRegister; readonly fd: number }
  | { readonly do: "call"; readonly helper: number }
  | { readonly do: "jump if zero"; readonly register: BpfRegister; readonly label: string }
  | {
      readonly do: "jump if greater";
      readonly register: BpfRegister;
      readonly than: BpfRegister;
      readonly label: string;
    }
  | {
      readonly do: "jump if not equal";
      readonly register: BpfRegister;
      readonly to: BpfRegister;
      readonly label: string;
    }
  | { readonly do: "exit" };

/** struct bpf_insn. */
const SIZE = 8;

const LOAD: Readonly<Record<BpfWidth, number>> = { 2: 0x69, 4: 0x61 };
const STORE: Readonly<Record<BpfWidth, number>> = { 2: 0x6b, 4: 0x63 };
/** BPF_PSEUDO_MAP_FD: the value is a map's descriptor. */
const MAP_DESCRIPTOR = 1;

/**
 * Returns the instructions in the kernel's binary form.
 *
 * @throws RangeError for a jump to a label that does not exist
 */
export function assembleBpf(instructions: readonly BpfInstruction[]): Uint8Array {
  const places = new Map<string, number>();
  let count = 0;
  for (const instruction of instructions) {
    if (instruction.do === "label") places.set(instruction.name, count);
    else count += slotsOf(instruction);
  }
  const bytes = new Uint8Array(count * SIZE);
  const view = new DataView(bytes.buffer);
  let slot = 0;
  for (const instruction of instructions) {
    if (instruction.do === "label") continue;
    const next = slot + slotsOf(instruction);
    const {
      code,
      to = 0,
      from = 0,
      offset = 0,
      value = 0,
    } = fieldsOf(instruction, (label) => {
      const place = places.get(label);
      if (place === undefined) throw new RangeError(`a jump to ${label}, which is nowhere`);
      return place - next;
    });
    view.setUint8(slot * SIZE, code);
    view.setUint8(slot * SIZE + 1, to | (from << 4));
    view.setInt16(slot * SIZE + 2, offset, littleEndian);
    view.setInt32(slot * SIZE + 4, value, littleEndian);
    slot = next;
  }
  return bytes;
}

/** Returns the slots an instruction takes: a map's address has 64 bits, the upper half (here zero) in its own slot. */
function slotsOf(instruction: BpfInstruction): number {
  return instruction.do === "load map" ? 2 : 1;
}

interface Fields {
  readonly code: number;
  readonly to?: number;
  readonly from?: number;
  readonly offset?: number;
  readonly value?: number;
}

function fieldsOf(
  instruction: Exclude<BpfInstruction, { readonly do: "label" }>,
  distanceTo: (label: string) => number,
): Fields {
  switch (instruction.do) {
    case "set":
      return { code: 0xb7, to: instruction.to, value: instruction.value };
    case "copy":
      return { code: 0xbf, to: instruction.to, from: instruction.from };
    case "add":
      return { code: 0x07, to: instruction.to, value: instruction.value };
    case "and":
      return { code: 0x57, to: instruction.to, value: instruction.value };
    case "from network order":
      return { code: 0xdc, to: instruction.to, value: instruction.width * 8 };
    case "load":
      return { code: LOAD[instruction.width], to: instruction.to, from: instruction.from, offset: instruction.at };
    case "store":
      return { code: STORE[instruction.width], to: instruction.to, from: instruction.from, offset: instruction.at };
    case "load map":
      return { code: 0x18, to: instruction.to, from: MAP_DESCRIPTOR, value: instruction.fd };
    case "call":
      return { code: 0x85, value: instruction.helper };
    case "jump if zero":
      return { code: 0x15, to: instruction.register, offset: distanceTo(instruction.label) };
    case "jump if greater":
      return { code: 0x2d, to: instruction.register, from: instruction.than, offset: distanceTo(instruction.label) };
    case "jump if not equal":
      return { code: 0x5d, to: instruction.register, from: instruction.to, offset: distanceTo(instruction.label) };
    case "exit":
      return { code: 0x95 };
  }
}
