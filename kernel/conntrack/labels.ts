import { DrawbridgeError } from "../error.ts";
import type { AttributeType } from "../netlink/attribute.ts";
import { littleEndian } from "../byte_order.ts";

/** The labels of an entry as a number of 128 bits: label n is bit n. */
export type ConntrackLabels = bigint;

/** The number of labels (XT_CONNLABEL_MAXBIT, include/uapi/linux/netfilter/xt_connlabel.h). */
const LABEL_BITS = 128;
const WORD_BYTES = 8;
const WORD_MASK = 0xffff_ffff_ffff_ffffn;

/** Returns the set of only this label. @throws RangeError unless the number is from 0 to 127 */
export function labelBit(label: number): ConntrackLabels {
  if (!Number.isInteger(label) || label < 0 || label >= LABEL_BITS) {
    throw new RangeError(`conntrack label: ${label}; expected 0 to ${LABEL_BITS - 1}`);
  }
  return 1n << BigInt(label);
}

export function hasLabel(labels: ConntrackLabels, label: number): boolean {
  return (labels & labelBit(label)) !== 0n;
}

/** The kernel's bitmap: two 64-bit words, each in the byte order of the machine. */
export const labels: AttributeType<ConntrackLabels> = {
  encode: (writer, value) => {
    writer.u64(value & WORD_MASK);
    writer.u64((value >> 64n) & WORD_MASK);
  },
  decode: (payload) => {
    if (payload.length !== 2 * WORD_BYTES) {
      throw new DrawbridgeError(
        "ERR_NETLINK_MALFORMED",
        `conntrack labels: ${payload.length} bytes; expected ${2 * WORD_BYTES}`,
      );
    }
    const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
    return view.getBigUint64(0, littleEndian) | (view.getBigUint64(WORD_BYTES, littleEndian) << 64n);
  },
};
