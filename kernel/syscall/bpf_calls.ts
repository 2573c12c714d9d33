import { littleEndian } from "../byte_order.ts";

/**
 * @param attributes union bpf_attr (include/uapi/linux/bpf.h); the kernel writes answers into it
 * @param arrays arrays whose addresses are stored in the attributes; the kernel reads or fills them
 */
export type BpfCall = (command: number, attributes: Uint8Array, arrays: readonly AttributeArray[]) => number;

/** bpf(2): programs that the kernel executes, and their tables. Results are as in syscalls.ts. */
export interface BpfCalls {
  readonly bpf: BpfCall;
  /** The same call, for commands that answer with a descriptor. */
  readonly openBpf: BpfCall;
}

/** An array that an attribute points to. */
export interface AttributeArray {
  /** The offset of its eight-byte address in the attributes. */
  readonly offset: number;
  readonly array: Uint8Array;
  /** Arrays whose addresses are stored in this array. */
  readonly arrays?: readonly AttributeArray[];
}

/** Returns the number of bpf(2), which has no libc function; undefined on an unsupported machine. */
export function bpfNumber(architecture: string): number | undefined {
  return { x64: 321, arm64: 280 }[architecture];
}

/** Stores the arrays' addresses. @param addressOf returns an address that is valid while the array is referenced */
export function setAddresses(
  attributes: Uint8Array,
  arrays: readonly AttributeArray[],
  addressOf: (array: Uint8Array) => bigint,
): void {
  const view = new DataView(attributes.buffer, attributes.byteOffset, attributes.byteLength);
  for (const { offset, array, arrays: inner = [] } of arrays) {
    setAddresses(array, inner, addressOf);
    view.setBigUint64(offset, addressOf(array), littleEndian);
  }
}
