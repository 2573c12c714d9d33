import assert from "node:assert/strict";
import { shimItems } from "../../../../cni/shim/data.ts";
import { addressesOf, type AddressOf, fill, place } from "../../../../cni/shim/image.ts";
import type { Comparison, Operation, Place, Register, Value } from "../../../../cni/shim/operation.ts";
import type { ShimParameters } from "../../../../cni/shim/parameters.ts";
import type { SystemCall } from "../../../../cni/shim/system_call.ts";

/** The memory of an interpreted process, in one piece; access to anything outside of it is an error. */
export class Memory {
  readonly #start: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(start: number, bytes: Uint8Array) {
    this.#start = start;
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  bytes(address: number, length: number): Uint8Array {
    const start = address - this.#start;
    assert.ok(
      start >= 0 && length >= 0 && start + length <= this.#bytes.length,
      `memory at ${address}, ${length} bytes`,
    );
    return this.#bytes.subarray(start, start + length);
  }

  load(address: number, width: 1 | 4 | 8): number {
    const start = this.bytes(address, width).byteOffset - this.#bytes.byteOffset;
    if (width === 1) return this.#view.getUint8(start);
    return width === 4 ? this.#view.getUint32(start, true) : Number(this.#view.getBigInt64(start, true));
  }

  store(address: number, width: 1 | 4 | 8, value: number): void {
    const start = this.bytes(address, width).byteOffset - this.#bytes.byteOffset;
    if (width === 1) this.#view.setUint8(start, value & 0xff);
    else if (width === 4) this.#view.setUint32(start, value >>> 0, true);
    else this.#view.setBigInt64(start, BigInt(value), true);
  }

  string(address: number): string {
    let end = address;
    while (this.load(end, 1) !== 0) end += 1;
    return new TextDecoder().decode(this.bytes(address, end - address));
  }

  /** Returns the strings of an array that ends in NULL. */
  strings(address: number): readonly string[] {
    const found: string[] = [];
    for (let entry = address; this.load(entry, 8) !== 0; entry += 8) found.push(this.string(this.load(entry, 8)));
    return found;
  }
}

/** The start of a process: its memory, the addresses of its image, and its stack. */
export interface Process {
  readonly memory: Memory;
  readonly addressOf: AddressOf;
  readonly stack: number;
}

const START = 0x1000;
const SIZE = 0x40000;
const STRINGS = START + SIZE - 0x4000;
const STACK = START + SIZE - 0x8000;
const AT_PAGESZ = 6;
const AT_EXECFN = 31;

/**
 * Returns a process as execve(2) leaves it: the image, and on the stack its arguments and environment as fs/exec.c
 * writes them.
 */
export function processOf(
  parameters: ShimParameters,
  args: readonly string[],
  environment: readonly string[],
): Process {
  const items = shimItems(parameters);
  const constants = place(items, "constants", START);
  const data = place(items, "data", constants.end);
  const buffers = place(items, "buffers", data.end);
  assert.ok(buffers.end <= STACK);
  const addressOf = addressesOf(constants, data, buffers);
  const memory = new Memory(START, new Uint8Array(SIZE));
  const constantsContents = fill(items, "constants", addressOf);
  memory.bytes(constants.end - constantsContents.length, constantsContents.length).set(constantsContents);
  const dataContents = fill(items, "data", addressOf);
  memory.bytes(data.end - dataContents.length, dataContents.length).set(dataContents);

  let end = STRINGS;
  const put = (text: string): number => {
    const bytes = new TextEncoder().encode(`${text}\0`);
    memory.bytes(end, bytes.length).set(bytes);
    end += bytes.length;
    return end - bytes.length;
  };
  const argv = args.map(put);
  const envp = environment.map(put);
  const auxiliary = [AT_PAGESZ, 4096, AT_EXECFN, put("/opt/cni/bin/drawbridge"), 0, 0];
  for (const [index, word] of [argv.length, ...argv, 0, ...envp, 0, ...auxiliary].entries())
    memory.store(STACK + index * 8, 8, word);
  return { memory, addressOf, stack: STACK };
}

/** Carries out a system call: returns its result, or throws {@link Ended}. */
export type CallKernel = (call: SystemCall, args: readonly number[], memory: Memory) => number;

/** Thrown by a kernel when a process ends or becomes another program, so that none of the program follows. */
export class Ended extends Error {}

/** A limit above the steps that the longest input takes. */
const MOST_STEPS = 200_000;

const comparisons: Readonly<Record<Comparison, (left: number, right: number) => boolean>> = {
  "==": (left, right) => left === right,
  "!=": (left, right) => left !== right,
  "<": (left, right) => left < right,
  "<=": (left, right) => left <= right,
  ">": (left, right) => left > right,
  ">=": (left, right) => left >= right,
};

/**
 * Runs a program until its process ends. Reading a register before it is set, or memory that does not exist, is an
 * error.
 */
export function interpret(program: readonly Operation[], process: Process, kernel: CallKernel): void {
  const { memory, addressOf } = process;
  const registers = new Map<Register, number>();
  const labels = new Map(
    program.flatMap((operation, at) => (operation.kind === "label" ? [[operation.name, at]] : [])),
  );
  const valueOf = (value: Value): number => {
    if (typeof value === "number") return value;
    if (typeof value !== "string") return addressOf(value.symbol) + value.offset;
    const found = registers.get(value);
    assert.ok(found !== undefined, `register ${value} is read before it is set`);
    return found;
  };
  const addressAt = (memoryPlace: Place): number =>
    "symbol" in memoryPlace ? valueOf(memoryPlace) : valueOf(memoryPlace.register) + memoryPlace.offset;
  const target = (name: string): number => {
    const position = labels.get(name);
    assert.ok(position !== undefined, `label ${name}`);
    return position;
  };

  let next = 0;
  for (let steps = 0; steps < MOST_STEPS; steps += 1) {
    const operation = program[next];
    assert.ok(operation !== undefined, "the program continues after its end");
    next += 1;
    switch (operation.kind) {
      case "label":
        break;
      case "initialStack":
        registers.set(operation.target, process.stack);
        break;
      case "set":
        registers.set(operation.target, valueOf(operation.value));
        break;
      case "add":
        registers.set(operation.target, valueOf(operation.target) + valueOf(operation.value));
        break;
      case "subtract":
        registers.set(operation.target, valueOf(operation.target) - valueOf(operation.value));
        break;
      case "load":
        registers.set(operation.target, memory.load(addressAt(operation.from), operation.width));
        break;
      case "store":
        memory.store(addressAt(operation.to), operation.width, valueOf(operation.value));
        break;
      case "jump":
        next = target(operation.to);
        break;
      case "jumpIf":
        if (comparisons[operation.comparison](valueOf(operation.left), valueOf(operation.right)))
          next = target(operation.to);
        break;
      case "system":
        try {
          registers.set("result", kernel(operation.call, operation.arguments.map(valueOf), memory));
        } catch (error) {
          if (error instanceof Ended) return;
          throw error;
        }
    }
  }
  assert.fail(`the program did not end within ${MOST_STEPS} steps`);
}
