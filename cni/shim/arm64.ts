import { DrawbridgeError } from "../../kernel/error.ts";
import { bytes32, type Surroundings } from "./assemble.ts";
import type { Comparison, Operation, Place, Register, Value, Width } from "./operation.ts";
import { systemCalls } from "./system_call.ts";

/**
 * The registers of AArch64. A system call takes its number in x8 and its arguments from x0 on, returns in x0, and
 * preserves all others (arch/arm64/kernel/entry.S). Its result is moved to x9, since the next call's arguments are
 * loaded one by one from x0 on.
 */
const registers: Readonly<Record<Register, number>> = {
  result: 9,
  stack: 19,
  file: 20,
  total: 21,
  socket: 22,
  cursor: 23,
  left: 24,
};
const CALL_NUMBER = 8;
const CALL_RESULT = 0;
const MOST_ARGUMENTS = 6;

/** Holds a number or an address that an instruction cannot hold, until the end of the operation. */
const SCRATCH = 10;

/** 31 means sp or xzr, depending on the instruction. */
const SP = 31;
const XZR = 31;

/** Condition codes: Arm Architecture Reference Manual, table C1-1; the signed ones. */
const conditions: Readonly<Record<Comparison, number>> = { "==": 0, "!=": 1, ">=": 10, "<": 11, ">": 12, "<=": 13 };

/** ADD, SUB (extended with sp: the immediate form) and SUBS, ADDS to xzr, which are CMP and CMN: manual, C6.2. */
const arithmetic = {
  add: { immediate: 0x91000000, negative: 0xd1000000, register: 0x8b000000 },
  subtract: { immediate: 0xd1000000, negative: 0x91000000, register: 0xcb000000 },
  compare: { immediate: 0xf1000000, negative: 0xb1000000, register: 0xeb000000 },
} as const;

/** LDRB, LDR (32 and 64 bits), STRB and STR with an unsigned offset, in units of the width: manual, C6.2. */
const accesses: Readonly<Record<"load" | "store", Readonly<Record<Width, number>>>> = {
  load: { 1: 0x39400000, 4: 0xb9400000, 8: 0xf9400000 },
  store: { 1: 0x39000000, 4: 0xb9000000, 8: 0xf9000000 },
};

/** SVC #0 */
const SVC = 0xd4000001;

/**
 * Encodes an operation as machine code of AArch64.
 *
 * @throws DrawbridgeError ERR_INPUT for a number that does not fit the instruction, and more than six arguments
 */
export function encodeArm64(operation: Operation, { addressOf, distanceTo }: Surroundings): readonly number[] {
  return words(operation, addressOf, distanceTo).flatMap(bytes32);
}

function words(
  operation: Operation,
  addressOf: Surroundings["addressOf"],
  distanceTo: Surroundings["distanceTo"],
): readonly number[] {
  const move = (target: number, value: Value): readonly number[] => {
    if (typeof value === "string") return [moveRegister(target, registers[value])];
    if (typeof value === "number") return moveNumber(target, value);
    return moveAddress(target, addressOf(value.symbol) + value.offset);
  };
  const compute = (kind: keyof typeof arithmetic, target: number, left: number, right: Value): readonly number[] => {
    const codes = arithmetic[kind];
    if (typeof right === "string") return [threeRegisters(codes.register, target, left, registers[right])];
    // ADD, SUB, SUBS, ADDS (immediate): imm12 from bit 10 on.
    if (typeof right === "number" && Math.abs(right) < 4096) {
      const code = right >= 0 ? codes.immediate : codes.negative;
      return [code | (Math.abs(right) << 10) | (left << 5) | target];
    }
    return [...move(SCRATCH, right), threeRegisters(codes.register, target, left, SCRATCH)];
  };

  switch (operation.kind) {
    case "label":
      return [];
    case "initialStack":
      // MOV (to/from SP): ADD Xd, SP, #0
      return [0x91000000 | (SP << 5) | registers[operation.target]];
    case "set":
      return move(registers[operation.target], operation.value);
    case "add":
    case "subtract": {
      const target = registers[operation.target];
      return compute(operation.kind, target, target, operation.value);
    }
    case "jumpIf": {
      const code = compute("compare", XZR, registers[operation.left], operation.right);
      // B.cond: imm19 from bit 5 on, in words, counted from the instruction itself.
      const distance = inWords(distanceTo(operation.to) - code.length * 4, 19);
      return [...code, 0x54000000 | (distance << 5) | conditions[operation.comparison]];
    }
    case "jump":
      // B: imm26, in words, counted from the instruction itself.
      return [0x14000000 | inWords(distanceTo(operation.to), 26)];
    case "load":
      return access(accesses.load, operation.width, operation.from, registers[operation.target], move);
    case "store":
      return access(accesses.store, operation.width, operation.to, registers[operation.value], move);
    case "system": {
      if (operation.arguments.length > MOST_ARGUMENTS)
        throw new DrawbridgeError("ERR_INPUT", `${operation.call}: takes six arguments at most`);
      const values = operation.arguments.flatMap((value, index) => [...move(index, value)]);
      const number = moveNumber(CALL_NUMBER, systemCalls[operation.call].arm64);
      return [...values, ...number, SVC, moveRegister(registers.result, CALL_RESULT)];
    }
  }
}

/** MOV (register): ORR Xd, XZR, Xm */
function moveRegister(target: number, source: number): number {
  return threeRegisters(0xaa000000, target, XZR, source);
}

/** Xd, Xn and Xm at bits 0, 5 and 16. */
function threeRegisters(code: number, target: number, left: number, right: number): number {
  return code | (right << 16) | (left << 5) | target;
}

/** MOVZ, followed by MOVK (LSL 16) for more than 16 bits; below zero MOVN, which sets the complement. */
function moveNumber(target: number, value: number): readonly number[] {
  if (value < 0) return [0x92800000 | (fits(-value - 1, 0xffff) << 5) | target];
  return value <= 0xffff ? [0xd2800000 | (value << 5) | target] : moveAddress(target, value);
}

/** MOVZ and MOVK (LSL 16): always both, as sizes must not depend on addresses. */
function moveAddress(target: number, value: number): readonly number[] {
  fits(value, 2 ** 32 - 1);
  return [0xd2800000 | ((value & 0xffff) << 5) | target, 0xf2a00000 | ((value >>> 16) << 5) | target];
}

function access(
  codes: Readonly<Record<Width, number>>,
  width: Width,
  memory: Place,
  register: number,
  move: (target: number, value: Value) => readonly number[],
): readonly number[] {
  if ("symbol" in memory) return [...move(SCRATCH, memory), codes[width] | (SCRATCH << 5) | register];
  const units = fits(memory.offset / width, 4095);
  return [codes[width] | (units << 10) | (registers[memory.register] << 5) | register];
}

function inWords(distance: number, bits: number): number {
  const most = 2 ** (bits - 1);
  const count = fits(distance / 4 + most, 2 * most - 1) - most;
  return count & (2 ** bits - 1);
}

function fits(value: number, most: number): number {
  if (Number.isInteger(value) && value >= 0 && value <= most) return value;
  throw new DrawbridgeError(
    "ERR_INPUT",
    `number: ${value}; expected a whole one from 0 to ${most}, which AArch64 encodes`,
  );
}
