import { protocolNumber } from "../ip/protocol.ts";
import { assembleBpf, type BpfInstruction, type BpfRegister } from "./instruction.ts";
import { Verdict } from "./object.ts";
import { type Member, membersOf, type ReadPart } from "./btf.ts";
import { Errno } from "../syscall/errno.ts";
import { type FileReadCalls, OpenFlag } from "../syscall/file_calls.ts";
import { check } from "../syscall/syscalls.ts";

/** The kernel's description of its types (CONFIG_DEBUG_INFO_BTF). */
const KERNEL_TYPES = "/sys/kernel/btf/vmlinux";

/**
 * Returns the program of {@link checksumProgram} for this kernel; undefined when it does not describe its packets.
 *
 * @throws SyscallError
 */
export function kernelChecksumProgram(files: FileReadCalls): Uint8Array | undefined {
  const fd = files.open(KERNEL_TYPES, OpenFlag.RDONLY | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return undefined;
  check(fd, `open ${KERNEL_TYPES}`);
  try {
    const layout = packetLayout((start, end) => readPart(files, fd, start, end));
    return layout && assembleBpf(checksumProgram(layout));
  } finally {
    files.close(fd);
  }
}

function readPart(files: FileReadCalls, fd: number, start: number, end: number): Uint8Array {
  const buffer = new Uint8Array(Math.max(end - start, 0));
  let length = 0;
  while (length < buffer.length) {
    const count = files.pread(fd, buffer.subarray(length), start + length);
    if (count === 0) break;
    if (count !== -Errno.EINTR) length += check(count, `read ${KERNEL_TYPES}`);
  }
  return buffer.subarray(0, length);
}

/** The offsets of a packet's fields in struct sk_buff, which differ from kernel to kernel. */
interface PacketLayout {
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

const LOAD_BYTES = 26;
const PROBE_READ_KERNEL = 113;

/** Offsets in struct __sk_buff (include/uapi/linux/bpf.h): whom the packet is for, and the size of its segments. */
const [PACKET_TYPE, SEGMENT_SIZE] = [4, 176];
/** PACKET_LOOPBACK: the node's own multicast, which it hears itself. The frame has no Ethernet header yet. */
const OWN_MULTICAST = 5;

const ETHERNET_HEADER = 14;
const IPV6_HEADER = 40;
/** The part of the frame that is read: Ethernet's header and IPv4's without options. */
const HEADERS = 34;
const [ETHER_TYPE, IPV4_SIZE, IPV4_FRAGMENT, IPV4_PROTOCOL, IPV6_NEXT] = [12, 14, 20, 23, 20];
const [ETH_P_IP, ETH_P_IPV6] = [0x0800, 0x86dd];
/** The offset and the flag "more fragments" of IPv4. */
const IS_FRAGMENT = 0x3fff;
const [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS] = [0, 43, 44, 51, 60];
/** The most extension headers that are followed. */
const MOST_EXTENSIONS = 6;

const [TCP_CHECKSUM, UDP_CHECKSUM, SCTP_CHECKSUM, UDP_HEADER] = [16, 6, 8, 8];

/**
 * Returns the program for each frame that a bridge receives. It drops a packet if a checksum, or the division into
 * segments, could later overwrite bytes that the rules check.
 *
 * The kernel and network cards compute the checksum of a packet when it leaves the machine, and write it where the
 * packet's sender has said. A program with CAP_NET_RAW may say any place (PACKET_VNET_HDR), and by then the rules have
 * seen the packet: so it could change a port, or an end of an IPv6 address. These are honest, and pass:
 *
 * - TCP, UDP and SCTP with the place of their own checksum, which is what all sockets, virtual machines and gVisor send;
 * - a place after the first eight bytes of UDP and of any other protocol but TCP, SCTP and ICMP: the checksum of a packet
 *   within a tunnel of the pod. No rule looks at those bytes.
 *
 * Fragments and ICMP never have one to be written, since the kernel computes theirs at once.
 *
 * When a tunnel's packet is divided into segments, the length of the packet within is written, too, where that packet is
 * said to begin. A program with CAP_NET_ADMIN in its pod may say any place (TUNSETOFFLOAD), also that of UDP's ports. So
 * a packet within a tunnel has to begin after UDP's header, or after the headers of IP.
 */
export function checksumProgram(layout: PacketLayout): readonly BpfInstruction[] {
  const known = -8 * Math.ceil(layout.size / 8);
  const headers = known - 8 * Math.ceil(HEADERS / 8);
  const { checksumState, isTunnel } = layout;
  return [
    { do: "copy", to: 6, from: 1 },
    { do: "load", to: 7, from: 6, at: PACKET_TYPE, width: 4 },
    { do: "jump if equal", register: 7, value: OWN_MULTICAST, label: "next" },
    { do: "copy", to: 1, from: 10 },
    { do: "add", to: 1, value: known },
    { do: "set", to: 2, value: layout.size },
    // struct __sk_buff, which a program gets, is a view of the packet's struct sk_buff.
    { do: "copy", to: 3, from: 6 },
    { do: "add", to: 3, value: layout.from },
    { do: "call", helper: PROBE_READ_KERNEL },
    { do: "jump if not equal", register: 0, value: 0, label: "drop" },
    // CHECKSUM_PARTIAL, both bits: whoever sends the packet writes its checksum (include/linux/skbuff.h).
    { do: "load", to: 7, from: 10, at: known + checksumState.at, width: 1 },
    { do: "and", to: 7, value: checksumState.mask },
    { do: "jump if equal", register: 7, value: checksumState.mask, label: "look" },
    { do: "load", to: 7, from: 10, at: known + isTunnel.at, width: 1 },
    { do: "and", to: 7, value: isTunnel.mask },
    { do: "jump if equal", register: 7, value: 0, label: "next" },
    { do: "load", to: 7, from: 6, at: SEGMENT_SIZE, width: 4 },
    { do: "jump if equal", register: 7, value: 0, label: "next" },
    { do: "label", name: "look" },
    // r7 = the place of the checksum in the frame.
    { do: "load", to: 7, from: 10, at: known + layout.checksumStart, width: 2 },
    { do: "load", to: 8, from: 10, at: known + layout.checksumOffset, width: 2 },
    { do: "add register", to: 7, from: 8 },
    { do: "load", to: 8, from: 10, at: known + layout.buffer, width: 8 },
    { do: "add register", to: 7, from: 8 },
    { do: "load", to: 8, from: 10, at: known + layout.frame, width: 8 },
    { do: "subtract register", to: 7, from: 8 },
    { do: "set", to: 2, value: 0 },
    ...loadBytes(headers, HEADERS),
    { do: "load", to: 8, from: 10, at: headers + ETHER_TYPE, width: 2 },
    { do: "from network order", to: 8, width: 2 },
    { do: "jump if equal", register: 8, value: ETH_P_IPV6, label: "IPv6" },
    { do: "jump if not equal", register: 8, value: ETH_P_IP, label: "drop" },
    { do: "load", to: 8, from: 10, at: headers + IPV4_FRAGMENT, width: 2 },
    { do: "from network order", to: 8, width: 2 },
    { do: "and", to: 8, value: IS_FRAGMENT },
    { do: "jump if not equal", register: 8, value: 0, label: "drop" },
    { do: "load", to: 8, from: 10, at: headers + IPV4_PROTOCOL, width: 1 },
    { do: "load", to: 9, from: 10, at: headers + IPV4_SIZE, width: 1 },
    { do: "and", to: 9, value: 0x0f },
    { do: "shift left", to: 9, value: 2 },
    { do: "add", to: 9, value: ETHERNET_HEADER },
    { do: "jump", label: "transport" },
    { do: "label", name: "IPv6" },
    { do: "load", to: 8, from: 10, at: headers + IPV6_NEXT, width: 1 },
    { do: "set", to: 9, value: ETHERNET_HEADER + IPV6_HEADER },
    ...Array.from({ length: MOST_EXTENSIONS }, (_, index) => extension(headers, `extension ${index}`)).flat(),
    { do: "jump", label: "drop" },
    // r8 = the protocol, r9 = the place of its header in the frame.
    { do: "label", name: "transport" },
    ...beginsAfterHeaders(layout, known),
    { do: "load", to: 1, from: 10, at: known + checksumState.at, width: 1 },
    { do: "and", to: 1, value: checksumState.mask },
    { do: "jump if not equal", register: 1, value: checksumState.mask, label: "next" },
    { do: "subtract register", to: 7, from: 9 },
    { do: "jump if equal", register: 8, value: protocolNumber("icmp"), label: "drop" },
    { do: "jump if equal", register: 8, value: protocolNumber("icmpv6"), label: "drop" },
    { do: "jump if equal", register: 8, value: protocolNumber("tcp"), label: "TCP" },
    { do: "jump if equal", register: 8, value: protocolNumber("sctp"), label: "SCTP" },
    { do: "jump if not equal", register: 8, value: protocolNumber("udp"), label: "after the header" },
    { do: "jump if equal", register: 7, value: UDP_CHECKSUM, label: "next" },
    { do: "label", name: "after the header" },
    { do: "jump if less", register: 7, value: UDP_HEADER, label: "drop" },
    { do: "jump", label: "next" },
    { do: "label", name: "SCTP" },
    { do: "jump if not equal", register: 7, value: SCTP_CHECKSUM, label: "drop" },
    { do: "jump", label: "next" },
    { do: "label", name: "TCP" },
    { do: "jump if not equal", register: 7, value: TCP_CHECKSUM, label: "drop" },
    { do: "label", name: "next" },
    { do: "set", to: 0, value: Verdict.NEXT },
    { do: "exit" },
    { do: "label", name: "drop" },
    { do: "set", to: 0, value: Verdict.DROP },
    { do: "exit" },
  ];
}

/**
 * Returns code that drops a tunnel's packet if the packet within begins before the transport's header at r9, or for UDP
 * (r8) before that header's end.
 */
function beginsAfterHeaders(layout: PacketLayout, known: number): readonly BpfInstruction[] {
  return [
    { do: "load", to: 1, from: 10, at: known + layout.isTunnel.at, width: 1 },
    { do: "and", to: 1, value: layout.isTunnel.mask },
    { do: "jump if equal", register: 1, value: 0, label: "no tunnel" },
    // r2 = the transport's place in the buffer.
    { do: "load", to: 2, from: 10, at: known + layout.frame, width: 8 },
    { do: "load", to: 3, from: 10, at: known + layout.buffer, width: 8 },
    { do: "subtract register", to: 2, from: 3 },
    { do: "add register", to: 2, from: 9 },
    { do: "jump if not equal", register: 8, value: protocolNumber("udp"), label: "packet within" },
    { do: "add", to: 2, value: UDP_HEADER },
    // Only tunnels in UDP are known to have a right place for the inner Ethernet header.
    { do: "load", to: 1, from: 10, at: known + layout.innerFrame, width: 2 },
    { do: "jump if greater", register: 2, than: 1, label: "drop" },
    { do: "label", name: "packet within" },
    { do: "load", to: 1, from: 10, at: known + layout.innerPacket, width: 2 },
    { do: "jump if greater", register: 2, than: 1, label: "drop" },
    { do: "label", name: "no tunnel" },
  ];
}

/** Returns code that copies bytes of the frame from offset r2 to a place of the stack; a frame without them is dropped. */
function loadBytes(to: number, count: number): readonly BpfInstruction[] {
  return [
    { do: "copy", to: 1, from: 6 },
    { do: "copy", to: 3, from: 10 },
    { do: "add", to: 3, value: to },
    { do: "set", to: 4, value: count },
    { do: "call", helper: LOAD_BYTES },
    { do: "jump if not equal", register: 0, value: 0, label: "drop" },
  ];
}

/**
 * Returns code that jumps over an extension header of IPv6, which nftables does, too (ipv6_find_hdr): r8 is the kind of
 * the header at r9, and becomes that of the next one. Anything else is the packet's transport.
 */
function extension(buffer: number, name: string): readonly BpfInstruction[] {
  const kind: BpfRegister = 8;
  return [
    { do: "jump if equal", register: kind, value: FRAGMENT, label: "drop" },
    { do: "jump if equal", register: kind, value: HOP_BY_HOP, label: name },
    { do: "jump if equal", register: kind, value: ROUTING, label: name },
    { do: "jump if equal", register: kind, value: DESTINATION_OPTIONS, label: name },
    { do: "jump if not equal", register: kind, value: AUTHENTICATION, label: "transport" },
    { do: "label", name },
    { do: "copy", to: 2, from: 9 },
    ...loadBytes(buffer, 2),
    { do: "load", to: 1, from: 10, at: buffer + 1, width: 1 },
    // The length is in units of eight bytes after the first eight; that of AH is in units of four, after the first two.
    { do: "jump if equal", register: kind, value: AUTHENTICATION, label: `${name}: AH` },
    { do: "add", to: 1, value: 1 },
    { do: "shift left", to: 1, value: 3 },
    { do: "jump", label: `${name}: end` },
    { do: "label", name: `${name}: AH` },
    { do: "add", to: 1, value: 2 },
    { do: "shift left", to: 1, value: 2 },
    { do: "label", name: `${name}: end` },
    { do: "add register", to: 9, from: 1 },
    { do: "load", to: kind, from: 10, at: buffer, width: 1 },
  ];
}
