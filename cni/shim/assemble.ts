import { DrawbridgeError } from "../../kernel/error.ts";
import type { AddressOf } from "./image.ts";
import type { Operation } from "./operation.ts";

/** The addresses and distances that an operation's machine code depends on. */
export interface Surroundings {
  readonly addressOf: AddressOf;
  /** Returns the bytes from this operation's first byte to a label. */
  readonly distanceTo: (name: string) => number;
}

/** Encodes an operation as machine code, whose length must not depend on the surroundings. */
export type Encode = (operation: Operation, surroundings: Surroundings) => readonly number[];

/**
 * Encodes a program as machine code, in two passes over all operations: the first determines only their sizes, which
 * give the labels' positions, the second encodes with the distances.
 *
 * @throws DrawbridgeError ERR_INPUT for a label that is missing or occurs twice, and what the encoder throws
 */
export function assemble(operations: readonly Operation[], encode: Encode, addressOf: AddressOf): Uint8Array {
  const labels = new Map<string, number>();
  const starts: number[] = [];
  let end = 0;
  for (const operation of operations) {
    starts.push(end);
    if (operation.kind === "label") {
      if (labels.has(operation.name))
        throw new DrawbridgeError("ERR_INPUT", `label: "${operation.name}" is there twice`);
      labels.set(operation.name, end);
    }
    end += encode(operation, { addressOf, distanceTo: () => 0 }).length;
  }
  const code = operations.flatMap((operation, index) => {
    const distanceTo = (name: string): number => {
      const position = labels.get(name);
      if (position === undefined) throw new DrawbridgeError("ERR_INPUT", `label: "${name}" is nowhere in the program`);
      return position - (starts[index] ?? 0);
    };
    return [...encode(operation, { addressOf, distanceTo })];
  });
  return Uint8Array.from(code);
}

/** Returns a number of 32 bits, signed or not, in little-endian bytes. */
export function bytes32(value: number): readonly number[] {
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, (value >>> 24) & 0xff];
}
