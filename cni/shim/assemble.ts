import { DrawbridgeError } from "../../kernel/error.ts";
import type { AddressOf } from "./image.ts";
import type { Operation } from "./operation.ts";

/** What an operation's machine code depends on besides itself. */
export interface Surroundings {
  readonly addressOf: AddressOf;
  /** How many bytes after this operation's first byte a label is. */
  readonly distanceTo: (name: string) => number;
}

/** An operation as machine code; how many bytes it takes must not depend on the surroundings. */
export type Encode = (operation: Operation, surroundings: Surroundings) => readonly number[];

/**
 * A program as machine code.
 *
 * Twice over all operations: first only their sizes, which say where each label is, then with the distances known.
 *
 * @throws DrawbridgeError ERR_INPUT for a label that is missing or there twice, and what the encoder throws
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

/** A number of 32 bits, signed or not, in little-endian bytes. */
export function bytes32(value: number): readonly number[] {
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, (value >>> 24) & 0xff];
}
