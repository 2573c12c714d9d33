import type { SystemCall } from "./system_call.ts";

/**
 * What a program of the shim can hold a number in. `result` lives until the next system call, which returns in it; the others keep
 * their value. There are no more than x86-64 has registers that arguments of system calls do not need.
 */
export type Register = "result" | "stack" | "file" | "total" | "socket" | "cursor" | "left";

/** The address of something in the image (`image.ts`), some bytes further on. */
export interface Address {
  readonly symbol: string;
  readonly offset: number;
}

/** Memory some bytes after where a register points. */
export interface Indirect {
  readonly register: Register;
  readonly offset: number;
}

export type Value = number | Register | Address;
export type Place = Address | Indirect;

/** Bytes that are moved at once; the numbers are unsigned, and fill their register. */
export type Width = 1 | 4 | 8;

/** Of signed 64-bit numbers: a system call that fails returns minus the errno. */
export type Comparison = "==" | "!=" | "<" | "<=" | ">" | ">=";

/** One step of a program, the same for every machine. */
export type Operation =
  | { readonly kind: "label"; readonly name: string }
  /** Where the kernel put argc: the first of a program, while the stack is as execve(2) left it. */
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

/** The address of a symbol, or of a byte in it. */
export function address(symbol: string, offset = 0): Address {
  return { symbol, offset };
}

/** The memory a register points at, some bytes further on. */
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

/** Goes on at a label. */
export function jump(to: string): Operation {
  return { kind: "jump", to };
}

/** Goes on at a label if the comparison holds, otherwise at the next operation. */
export function jumpIf(left: Register, comparison: Comparison, right: Value, to: string): Operation {
  return { kind: "jumpIf", left, comparison, right, to };
}

/** `result = call(arguments)`; zero or more, or minus the errno. */
export function system(call: SystemCall, ...values: readonly Value[]): Operation {
  return { kind: "system", call, arguments: values };
}

/** `target = ` the address of argc, as the kernel left the stack. */
export function initialStack(target: Register): Operation {
  return { kind: "initialStack", target };
}
