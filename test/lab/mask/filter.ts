import os from "node:os";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { littleEndian } from "../../../kernel/netlink/writer.ts";

/** A system call that shall fail, with its errno. */
export interface MaskRule {
  readonly call: MaskedCall;
  /**
   * Argument values by position (0 to 5) that must all match; other calls pass. They are compared as 32-bit numbers.
   */
  readonly arguments?: Readonly<Record<number, number>>;
  /** The compared bits of an argument, by position; all when absent. */
  readonly bits?: Readonly<Record<number, number>>;
  readonly errno: keyof typeof Errno;
}

/** System call numbers (asm/unistd_64.h; asm-generic/unistd.h for arm64, which has no `link`). */
const numbers = {
  x64: { socket: 41, link: 86, linkat: 265, flock: 73, bpf: 321 },
  arm64: { socket: 198, linkat: 37, flock: 32, bpf: 280 },
} as const;

export type MaskedCall = keyof (typeof numbers)["x64"];

/** AUDIT_ARCH_* (linux/audit.h): the filter lets calls by another convention pass, since their numbers differ. */
const auditArch = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;

/** struct seccomp_data: nr, arch, instruction pointer, six 64-bit arguments. */
const OFFSET_NUMBER = 0;
const OFFSET_ARCH = 4;
const OFFSET_ARGUMENTS = 16;

const BPF_LOAD_WORD = 0x20;
const BPF_AND = 0x54;
const BPF_JUMP_EQUAL = 0x15;
const BPF_RETURN = 0x06;
const SECCOMP_RET_ALLOW = 0x7fff_0000;
const SECCOMP_RET_ERRNO = 0x0005_0000;

const INSTRUCTION_SIZE = 8;

/** One `struct sock_filter`: a comparison skips `ifTrue` or `ifFalse` further instructions. */
interface Instruction {
  readonly code: number;
  readonly ifTrue: number;
  readonly ifFalse: number;
  readonly k: number;
}

/**
 * Returns the seccomp program that makes the rules' calls fail and lets all others pass; the first matching rule
 * decides.
 *
 * @param arch of the process it will filter
 * @throws Error on another processor than x64 and arm64
 */
export function maskProgram(rules: readonly MaskRule[], arch: string = os.arch()): Uint8Array {
  if (arch !== "x64" && arch !== "arm64")
    throw new Error(`mask: no system call numbers for ${arch}; expected x64 or arm64`);
  const known: Readonly<Partial<Record<MaskedCall, number>>> = numbers[arch];
  const instructions = [
    load(OFFSET_ARCH),
    jumpEqual(auditArch[arch], 1, 0),
    give(SECCOMP_RET_ALLOW),
    ...rules.flatMap((rule) => {
      const number = known[rule.call];
      return number === undefined ? [] : ruleInstructions(rule, number);
    }),
    give(SECCOMP_RET_ALLOW),
  ];
  return encodeProgram(instructions);
}

function ruleInstructions(rule: MaskRule, number: number): readonly Instruction[] {
  const conditions = [
    { loads: [load(OFFSET_NUMBER)], value: number },
    ...Object.entries(rule.arguments ?? {}).map(([position, value]) => {
      const bits = rule.bits?.[Number(position)];
      const argument = load(OFFSET_ARGUMENTS + 8 * Number(position) + (littleEndian ? 0 : 4));
      return { loads: bits === undefined ? [argument] : [argument, and(bits)], value };
    }),
  ];
  // From the last condition to the first: a failed one skips the rest of the rule.
  return conditions.reduceRight<readonly Instruction[]>(
    (rest, { loads, value }) => [...loads, jumpEqual(value, 0, rest.length), ...rest],
    [give(SECCOMP_RET_ERRNO | Errno[rule.errno])],
  );
}

function and(bits: number): Instruction {
  return { code: BPF_AND, ifTrue: 0, ifFalse: 0, k: bits };
}

function load(offset: number): Instruction {
  return { code: BPF_LOAD_WORD, ifTrue: 0, ifFalse: 0, k: offset };
}

function jumpEqual(value: number, ifTrue: number, ifFalse: number): Instruction {
  return { code: BPF_JUMP_EQUAL, ifTrue, ifFalse, k: value };
}

function give(value: number): Instruction {
  return { code: BPF_RETURN, ifTrue: 0, ifFalse: 0, k: value };
}

function encodeProgram(instructions: readonly Instruction[]): Uint8Array {
  const bytes = new Uint8Array(instructions.length * INSTRUCTION_SIZE);
  const view = new DataView(bytes.buffer);
  for (const [i, { code, ifTrue, ifFalse, k }] of instructions.entries()) {
    view.setUint16(i * INSTRUCTION_SIZE, code, littleEndian);
    view.setUint8(i * INSTRUCTION_SIZE + 2, ifTrue);
    view.setUint8(i * INSTRUCTION_SIZE + 3, ifFalse);
    view.setUint32(i * INSTRUCTION_SIZE + 4, k >>> 0, littleEndian);
  }
  return bytes;
}
