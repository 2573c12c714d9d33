import { type Member, membersOf, type ReadPart } from "./btf.ts";

/** The offsets of a packet's fields in struct sk_buff, which differ from kernel to kernel. */
export interface PacketLayout {
  /** The part of the struct with all fields below: its offset and its length. Their offsets count from its beginning. */
  readonly from: number;
  readonly size: number;
  /** The two bits that tell who computes the checksum. */
  readonly checksumState: Bits;
  /** Where the sum begins, from the buffer's beginning, and where it is to be written, from there: two bytes each. */
  readonly checksumStart: number;
  readonly checksumOffset: number;
  /** The bit that tells that the packet is a tunnel's. */
  readonly isTunnel: Bits;
  /** Where the packet in the tunnel begins, with and without its own Ethernet header, from the buffer's beginning. */
  readonly innerFrame: number;
  readonly innerPacket: number;
  /** The addresses of the buffer and of the frame in it. */
  readonly buffer: number;
  readonly frame: number;
}

/** Bits in one byte. */
interface Bits {
  readonly at: number;
  readonly mask: number;
}

/** Twice what Linux 6.18 needs; a program's stack has 512 bytes. */
const LONGEST = 160;

/**
 * Returns the layout of this kernel's packets; undefined for one that has another kind of struct sk_buff.
 *
 * @param read of the kernel's description of its types
 */
export function packetLayout(read: ReadPart): PacketLayout | undefined {
  const members = membersOf(read, "sk_buff");
  const member = (name: string): Member | undefined => members?.get(name);
  const state = bitsOf(member("ip_summed"), 2);
  const tunnel = bitsOf(member("encapsulation"), 1);
  const start = byteOf(member("csum_start"));
  const offset = byteOf(member("csum_offset"));
  const innerFrame = byteOf(member("inner_mac_header"));
  const innerPacket = byteOf(member("inner_network_header"));
  const head = byteOf(member("head"));
  const data = byteOf(member("data"));
  if (state === undefined || tunnel === undefined || start === undefined || offset === undefined) return undefined;
  if (innerFrame === undefined || innerPacket === undefined || head === undefined || data === undefined)
    return undefined;
  const numbers = [start, offset, innerFrame, innerPacket];
  const from = Math.min(state.at, tunnel.at, head, data, ...numbers);
  const end = Math.max(state.at + 1, tunnel.at + 1, head + 8, data + 8, ...numbers.map((at) => at + 2));
  if (end - from > LONGEST) return undefined;
  return {
    from,
    size: end - from,
    checksumState: { ...state, at: state.at - from },
    checksumStart: start - from,
    checksumOffset: offset - from,
    isTunnel: { ...tunnel, at: tunnel.at - from },
    innerFrame: innerFrame - from,
    innerPacket: innerPacket - from,
    buffer: head - from,
    frame: data - from,
  };
}

/** Returns a bit field of this width within one byte. */
function bitsOf(member: Member | undefined, width: number): Bits | undefined {
  if (member?.width !== width || (member.offset & 7) + width > 8) return undefined;
  return { at: member.offset >>> 3, mask: (2 ** width - 1) << (member.offset & 7) };
}

/** Returns the offset in bytes of a member that consists of whole bytes. */
function byteOf(member: Member | undefined): number | undefined {
  return member === undefined || member.width !== 0 || member.offset % 8 !== 0 ? undefined : member.offset / 8;
}
