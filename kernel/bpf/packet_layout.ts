import { type Btf, type Member, memberOf } from "./btf.ts";

/** The places of what the kernel knows about a packet, in struct sk_buff, which differ from kernel to kernel. */
export interface PacketLayout {
  /** The first byte of the part that has all the fields below, and its length. They are offsets in that part. */
  readonly from: number;
  readonly size: number;
  /** The two bits that tell who computes the checksum. */
  readonly checksumState: { readonly at: number; readonly shift: number };
  /** Where the sum begins, from the buffer's beginning, and where it is to be written, from there: two bytes each. */
  readonly checksumStart: number;
  readonly checksumOffset: number;
  /** The addresses of the buffer and of the frame in it. */
  readonly buffer: number;
  readonly frame: number;
}

/** Twice what Linux 6.18 needs; a program's stack has 512 bytes. */
const LONGEST = 160;

/** Returns the layout of this kernel's packets; undefined for one that has another kind of struct sk_buff. */
export function packetLayout(btf: Btf): PacketLayout | undefined {
  const state = memberOf(btf, "sk_buff", "ip_summed");
  const start = byteOf(memberOf(btf, "sk_buff", "csum_start"));
  const offset = byteOf(memberOf(btf, "sk_buff", "csum_offset"));
  const head = byteOf(memberOf(btf, "sk_buff", "head"));
  const data = byteOf(memberOf(btf, "sk_buff", "data"));
  if (state?.width !== 2 || start === undefined || offset === undefined || head === undefined || data === undefined)
    return undefined;
  const stateByte = state.offset >>> 3;
  const from = Math.min(stateByte, start, offset, head, data);
  const size = Math.max(stateByte + 1, start + 2, offset + 2, head + 8, data + 8) - from;
  // Two bits in one byte.
  if (size > LONGEST || (state.offset & 7) > 6) return undefined;
  return {
    from,
    size,
    checksumState: { at: stateByte - from, shift: state.offset & 7 },
    checksumStart: start - from,
    checksumOffset: offset - from,
    buffer: head - from,
    frame: data - from,
  };
}

/** Returns the offset in bytes of a member that consists of whole bytes. */
function byteOf(member: Member | undefined): number | undefined {
  return member === undefined || member.width !== 0 || member.offset % 8 !== 0 ? undefined : member.offset / 8;
}
