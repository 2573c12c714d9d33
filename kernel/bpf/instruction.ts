import { littleEndian } from "../byte_order.ts";

/** A register: r0 has results, r1 to r5 a call's arguments, r6 to r9 survive calls, r10 is the end of the stack. */
export type BpfRegister = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10;

/** The number of bytes that one instruction reads or writes. */
export type BpfWidth = 1 | 2 | 4 | 8;

/** An instruction of a BPF program (Documentation/bpf/standardization/instruction-set.rst), or a label to jump to. */
export type BpfInstruction =
  | { readonly do: "label"; readonly name: string }
  | { readonly do: keyof typeof BY_NUMBER; readonly to: BpfRegister; readonly value: number }
  | { readonly do: keyof typeof BY_REGISTER; readonly to: BpfRegister; readonly from: BpfRegister }
  | { readonly do: "from network order"; readonly to: BpfRegister; readonly width: 2 | 4 }
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
      readonly width: 2 | 4;
    }
  | { readonly do: "load map"; readonly to: BpfRegister; readonly fd: number }
  | { readonly do: "call"; readonly helper: number }
  | {
      readonly do: keyof typeof COMPARE;
      readonly register: BpfRegister;
      readonly value: number;
      readonly label: string;
    }
  | {
      readonly do: "jump if greater";
      readonly register: BpfRegister;
      readonly than: BpfRegister;
      readonly label: string;
    }
  | {
      readonly do: "jump if registers differ";
      readonly registers: readonly [BpfRegister, BpfRegister];
      readonly label: string;
    }
  | { readonly do: "jump"; readonly label: string }
  | { readonly do: "exit" };

/** struct bpf_insn. */
const SIZE = 8;

const BY_NUMBER = { set: 0xb7, add: 0x07, and: 0x57, "shift left": 0x67 } as const;
const BY_REGISTER = { copy: 0xbf, "add register": 0x0f, "subtract register": 0x1f } as const;
const LOAD: Readonly<Record<BpfWidth, number>> = { 1: 0x71, 2: 0x69, 4: 0x61, 8: 0x79 };
const STORE = { 2: 0x6b, 4: 0x63 } as const;
/** "Less" compares signed numbers. */
const COMPARE = { "jump if equal": 0x15, "jump if not equal": 0x55, "jump if less": 0xc5 } as const;
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

type Instruction = Exclude<BpfInstruction, { readonly do: "label" }>;
type Jump = Extract<Instruction, { readonly label: string }>;

function fieldsOf(instruction: Instruction, distanceTo: (label: string) => number): Fields {
  return "label" in instruction ? jumpFields(instruction, distanceTo(instruction.label)) : plainFields(instruction);
}

function plainFields(instruction: Exclude<Instruction, Jump>): Fields {
  switch (instruction.do) {
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
    case "exit":
      return { code: 0x95 };
    default: {
      const { to } = instruction;
      return "from" in instruction
        ? { code: BY_REGISTER[instruction.do], to, from: instruction.from }
        : { code: BY_NUMBER[instruction.do], to, value: instruction.value };
    }
  }
}

function jumpFields(jump: Jump, offset: number): Fields {
  switch (jump.do) {
    case "jump":
      return { code: 0x05, offset };
    case "jump if greater":
      return { code: 0x2d, to: jump.register, from: jump.than, offset };
    case "jump if registers differ": {
      const [to, from] = jump.registers;
      return { code: 0x5d, to, from, offset };
    }
    default:
      return { code: COMPARE[jump.do], to: jump.register, value: jump.value, offset };
  }
}
