import { littleEndian } from "../netlink/writer.ts";

/**
 * @param attributes union bpf_attr (include/uapi/linux/bpf.h); the kernel writes answers into it
 * @param arrays whose addresses go into it, by their offsets; the kernel reads or fills them
 */
export type BpfCall = (command: number, attributes: Uint8Array, arrays: readonly AttributeArray[]) => number;

/** bpf(2): programs that the kernel carries out, and their tables. Results are as in {@link ./syscalls.ts}. */
export interface BpfCalls {
  readonly bpf: BpfCall;
  /** The same, for commands that answer with a descriptor. */
  readonly openBpf: BpfCall;
}

/** An array that an attribute points to. */
export interface AttributeArray {
  /** Bytes from the begin of the attributes, where eight are free. */
  readonly offset: number;
  readonly array: Uint8Array;
  /** Those whose addresses go into this one. */
  readonly arrays?: readonly AttributeArray[];
}

/** The number of bpf(2), for which libc has no function; undefined on a machine that is not supported. */
export function bpfNumber(architecture: string): number | undefined {
  return { x64: 321, arm64: 280 }[architecture];
}

/** Puts the arrays' addresses in. @param addressOf holds for as long as the array is referenced */
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
