import { DrawbridgeError } from "../../kernel/error.ts";
import { bytes32, type Surroundings } from "./assemble.ts";
import type { Comparison, Operation, Place, Register, Value, Width } from "./operation.ts";
import { systemCalls } from "./system_call.ts";

/** The numbers of registers: Intel 64 Software Developer's Manual, volume 2, table 3-1 ("Register Codes"). */
const RAX = 0;
const RSP = 4;
const R11 = 11;

/**
 * The registers of x86-64 that keep their value. A system call returns in rax and destroys rcx and r11 (psABI x86-64,
 * appendix A.2.1); it takes its number in rax and its arguments in the six registers below.
 */
const registers: Readonly<Record<Register, number>> = {
  result: RAX,
  stack: 3,
  file: 5,
  total: 12,
  socket: 13,
  cursor: 14,
  left: 15,
};

/** rdi, rsi, rdx, r10, r8, r9 */
const argumentRegisters = [7, 6, 2, 10, 8, 9] as const;

/** Holds the address of a symbol that is read or written, until the end of the operation. */
const SCRATCH = R11;

/** Jcc's second byte: volume 2, "Jcc - Jump if Condition Is Met", the signed ones. */
const conditions: Readonly<Record<Comparison, number>> = {
  "==": 0x84,
  "!=": 0x85,
  "<": 0x8c,
  ">=": 0x8d,
  "<=": 0x8e,
  ">": 0x8f,
};

/**
 * Encodes an operation as machine code of x86-64.
 *
 * @throws DrawbridgeError ERR_INPUT for a number that does not fit into 32 bits, and more than six arguments
 */
export function encodeX64(operation: Operation, surroundings: Surroundings): readonly number[] {
  const { addressOf, distanceTo } = surroundings;
  const number = (value: Exclude<Value, Register>): number =>
    typeof value === "number" ? value : addressOf(value.symbol) + value.offset;
  const move = (target: number, value: Value): readonly number[] =>
    typeof value === "string" ? movRegister(target, registers[value]) : movNumber(target, number(value));

  switch (operation.kind) {
    case "label":
      return [];
    case "initialStack":
      return movRegister(registers[operation.target], RSP);
    case "set":
      return move(registers[operation.target], operation.value);
    case "add":
    case "subtract":
    case "jumpIf": {
      const [kind, left, right] =
        operation.kind === "jumpIf"
          ? (["compare", operation.left, operation.right] as const)
          : ([operation.kind, operation.target, operation.value] as const);
      const code =
        typeof right === "string"
          ? arithmeticRegister(kind, registers[left], registers[right])
          : arithmeticNumber(kind, registers[left], number(right));
      if (operation.kind !== "jumpIf") return code;
      // Jcc rel32: 0F 8x cd, counted from the instruction after it.
      return [...code, 0x0f, conditions[operation.comparison], ...bytes32(distanceTo(operation.to) - code.length - 6)];
    }
    case "jump":
      // JMP rel32: E9 cd, counted from the instruction after it.
      return [0xe9, ...bytes32(distanceTo(operation.to) - 5)];
    case "load":
    case "store": {
      const [memory, register] =
        operation.kind === "load" ? [operation.from, operation.target] : [operation.to, operation.value];
      const access = accesses[operation.kind][operation.width];
      return inMemory(memory, (place) => move(SCRATCH, place), access, registers[register]);
    }
    case "system": {
      const values = operation.arguments.flatMap((value, index) => {
        const target = argumentRegisters[index];
        if (target === undefined)
          throw new DrawbridgeError("ERR_INPUT", `${operation.call}: takes six arguments at most`);
        return [...move(target, value)];
      });
      // The number comes last: until then an argument may be the result of the previous call.
      return [...values, ...movNumber(RAX, systemCalls[operation.call].x64), ...SYSCALL];
    }
  }
}

/** SYSCALL: 0F 05. */
const SYSCALL = [0x0f, 0x05];

/**
 * The prefix REX: volume 2, 2.2.1. W selects 64 bits; R and B are the fourth bits of ModR/M's two registers. It is
 * always present. Without any of the bits it only changes the meaning of some byte registers, as desired.
 */
function rex(isWide: boolean, reg: number, rm: number): number {
  return 0x40 | (isWide ? 8 : 0) | (reg > 7 ? 4 : 0) | (rm > 7 ? 1 : 0);
}

/** ModR/M of two registers, or of an extension of the opcode (/0 … /7) and a register: mode 11. */
function modRegister(reg: number, rm: number): number {
  return 0xc0 | ((reg & 7) << 3) | (rm & 7);
}

/** MOV r/m64, r64: REX.W 89 /r. */
function movRegister(target: number, source: number): readonly number[] {
  return [rex(true, source, target), 0x89, modRegister(source, target)];
}

/** MOV r32, imm32: B8+rd id, which clears the upper half; below zero MOV r/m64, imm32: REX.W C7 /0 id, which extends the sign. */
function movNumber(target: number, value: number): readonly number[] {
  if (value >= 0) return [rex(false, 0, target), 0xb8 | (target & 7), ...bytes32(fits(value, 0, 2 ** 32 - 1))];
  return [rex(true, 0, target), 0xc7, modRegister(0, target), ...signed32(value)];
}

/** ADD, SUB and CMP r/m64, r64: REX.W 01, 29 and 39 /r; with an imm32 REX.W 81 /0, /5 and /7 id. */
const arithmetic = {
  add: { opcode: 0x01, extension: 0 },
  subtract: { opcode: 0x29, extension: 5 },
  compare: { opcode: 0x39, extension: 7 },
} as const;

function arithmeticRegister(kind: keyof typeof arithmetic, left: number, right: number): readonly number[] {
  return [rex(true, right, left), arithmetic[kind].opcode, modRegister(right, left)];
}

function arithmeticNumber(kind: keyof typeof arithmetic, left: number, right: number): readonly number[] {
  return [rex(true, 0, left), 0x81, modRegister(arithmetic[kind].extension, left), ...signed32(right)];
}

interface Access {
  readonly isWide: boolean;
  readonly opcode: readonly number[];
}

/**
 * MOVZX r32, r/m8: 0F B6 /r; MOV r32, r/m32: 8B /r; MOV r64, r/m64: REX.W 8B /r; all three clear the higher bits. MOV
 * r/m8, r8: 88 /r, with REX, without which some numbers mean ah to bh; MOV r/m32, r32: 89 /r; MOV r/m64, r64: REX.W 89
 * /r.
 */
const accesses: Readonly<Record<"load" | "store", Readonly<Record<Width, Access>>>> = {
  load: {
    1: { isWide: false, opcode: [0x0f, 0xb6] },
    4: { isWide: false, opcode: [0x8b] },
    8: { isWide: true, opcode: [0x8b] },
  },
  store: {
    1: { isWide: false, opcode: [0x88] },
    4: { isWide: false, opcode: [0x89] },
    8: { isWide: true, opcode: [0x89] },
  },
};

/** An instruction with ModR/M of mode 10, a register and a displacement of 32 bits; rsp and r12 as base need a SIB byte, 24. */
function inMemory(
  memory: Place,
  setScratch: (address: Value) => readonly number[],
  access: Access,
  reg: number,
): readonly number[] {
  const isAddress = "symbol" in memory;
  const base = isAddress ? SCRATCH : registers[memory.register];
  const sib = (base & 7) === RSP ? [0x24] : [];
  return [
    ...(isAddress ? setScratch(memory) : []),
    rex(access.isWide, reg, base),
    ...access.opcode,
    0x80 | ((reg & 7) << 3) | (base & 7),
    ...sib,
    ...signed32(isAddress ? 0 : memory.offset),
  ];
}

function signed32(value: number): readonly number[] {
  return bytes32(fits(value, -(2 ** 31), 2 ** 31 - 1));
}

function fits(value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new DrawbridgeError(
    "ERR_INPUT",
    `number: ${value}; expected one from ${least} to ${most}, which x86-64 encodes`,
  );
}
