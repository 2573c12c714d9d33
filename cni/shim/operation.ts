import type { SystemCall } from "./system_call.ts";

/**
 * A register of a shim program. `result` lives until the next system call, which returns in it; the others keep their
 * value. There are only as many as x86-64 has registers that system calls do not use for arguments.
 */
export type Register = "result" | "stack" | "file" | "total" | "socket" | "cursor" | "left";

/** The address of an item in the image (`image.ts`), plus some bytes. */
export interface Address {
  readonly symbol: string;
  readonly offset: number;
}

/** The memory at a register's address plus some bytes. */
export interface Indirect {
  readonly register: Register;
  readonly offset: number;
}

export type Value = number | Register | Address;
export type Place = Address | Indirect;

/** The bytes that are moved at once; the numbers are unsigned and extended to the register. */
export type Width = 1 | 4 | 8;

/** A comparison of signed 64-bit numbers: a failing system call returns minus the errno. */
export type Comparison = "==" | "!=" | "<" | "<=" | ">" | ">=";

/** One step of a program, the same for every machine. */
export type Operation =
  | { readonly kind: "label"; readonly name: string }
  /** The address of argc. Must be a program's first operation, while the stack is as execve(2) left it. */
  | { readonly kind: "initialStack"; readonly target: Register }
  | { readonly kind: "set"; readonly target: Register; readonly value: Value }
  | { readonly kind: "add"; readonly target: Register; readonly value: Value }
  | { readonly kind: "subtract"; readonly target: Register; readonly value: Value }
  | { readonly kind: "load"; readonly width: Width; readonly target: Register; readonly from: Place }
  | { readonly kind: "store"; readonly width: Width; readonly to: Place; readonly value: Register }
  | { readonly kind: "jump"; readonly to: string }
  | {
      readonly kind: "jumpIf";
      readonly left: Register;
      readonly comparison: Comparison;
      readonly right: Value;
      readonly to: string;
    }
  | { readonly kind: "system"; readonly call: SystemCall; readonly arguments: readonly Value[] };

/** Returns the address of a symbol, or of a byte in it. */
export function address(symbol: string, offset = 0): Address {
  return { symbol, offset };
}

/** Returns the memory at a register's address plus some bytes. */
export function at(register: Register, offset = 0): Indirect {
  return { register, offset };
}

/** The place that {@link jump} and {@link jumpIf} name. */
export function label(name: string): Operation {
  return { kind: "label", name };
}

/** `target = value` */
export function set(target: Register, value: Value): Operation {
  return { kind: "set", target, value };
}

/** `target += value` */
export function add(target: Register, value: Value): Operation {
  return { kind: "add", target, value };
}

/** `target -= value` */
export function subtract(target: Register, value: Value): Operation {
  return { kind: "subtract", target, value };
}

/** `target = memory` */
export function load(width: Width, target: Register, from: Place): Operation {
  return { kind: "load", width, target, from };
}

/** `memory = value` */
export function store(width: Width, to: Place, value: Register): Operation {
  return { kind: "store", width, to, value };
}

/** Continues at a label. */
export function jump(to: string): Operation {
  return { kind: "jump", to };
}

/** Continues at a label if the comparison holds, otherwise at the next operation. */
export function jumpIf(left: Register, comparison: Comparison, right: Value, to: string): Operation {
  return { kind: "jumpIf", left, comparison, right, to };
}

/** `result = call(arguments)`; zero or more, or minus the errno. */
export function system(call: SystemCall, ...values: readonly Value[]): Operation {
  return { kind: "system", call, arguments: values };
}

/** `target = ` the address of argc on the initial stack. */
export function initialStack(target: Register): Operation {
  return { kind: "initialStack", target };
}
