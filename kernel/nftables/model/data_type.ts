import type { Writer } from "../../byte_writer.ts";
import { addressType, connectionLabel, etherAddress, integer, interfaceName, sixteenBytes } from "./value_codec.ts";

/** One value of a key or data: an address, a number, or a symbol of its type ("tcp", "established"). */
export type Scalar = number | bigint | string;

/** A kind of value: its storage in registers and sets, and its name and text in nft. */
export interface DataType {
  readonly name: DataTypeName;
  /** nft's own number (TYPE_* in nft's datatype.h), which the kernel stores for programs that list sets. */
  readonly id: number;
  /** The bytes of a value. In a concatenation a value takes a multiple of four. */
  readonly size: number;
  /** nft's NFTNL_UDATA byte order: 1 host, 2 network, 0 none. */
  readonly byteOrder: 0 | 1 | 2;
  /** The names of values or, for flags, of single bits. */
  readonly symbols: ReadonlyMap<string, number>;
  /** Whether values are sets of bits, of which only a single one can be written. */
  readonly isBitmask: boolean;
  /** @throws DrawbridgeError ERR_NFTABLES_VALUE when the value is not one of this type */
  encode(writer: Writer, value: Scalar): void;
  decode(bytes: Uint8Array): Scalar;
  text(value: Scalar): string;
}

export type DataTypeName =
  | "ipv4_addr"
  | "ipv6_addr"
  | "ether_addr"
  | "ether_type"
  | "inet_proto"
  | "inet_service"
  | "icmp_type"
  | "icmp_code"
  | "icmpv6_type"
  | "igmp_type"
  | "tcp_flag"
  | "nf_proto"
  | "iface_type"
  | "mark"
  | "classid"
  | "integer"
  | "byte"
  | "short"
  | "boolean"
  | "sixteen_bytes"
  | "ifname"
  | "ct_state"
  | "ct_dir"
  | "ct_status"
  | "ct_label"
  | "ct_id"
  | "pkt_type"
  | "fib_addrtype";

/** Returns a traffic class as text: major and minor number. */
const trafficClass = (value: number): string => `${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`;

const hexadecimal = (value: number): string => `0x${value.toString(16).padStart(8, "0")}`;

/** The data types of our rules. Numbers and symbols are those of nft 1.0.6 and the kernel's headers. */
export const dataTypes: Readonly<Record<DataTypeName, DataType>> = {
  ipv4_addr: addressType("ipv4_addr", 7, 4),
  ipv6_addr: addressType("ipv6_addr", 8, 16),
  ether_addr: etherAddress,
  ether_type: integer("ether_type", 10, 2, 2, {
    symbols: { ip: 0x0800, arp: 0x0806, ip6: 0x86dd },
    text: (value) => `0x${value.toString(16).padStart(4, "0")}`,
  }),
  inet_proto: integer("inet_proto", 12, 1, 2, {
    symbols: {
      icmp: 1,
      igmp: 2,
      ipencap: 4,
      tcp: 6,
      udp: 17,
      ipv6: 41,
      gre: 47,
      "ipv6-icmp": 58,
      etherip: 97,
      l2tp: 115,
      sctp: 132,
    },
  }),
  inet_service: integer("inet_service", 13, 2, 2),
  icmp_type: integer("icmp_type", 14, 1, 2, {
    symbols: {
      "destination-unreachable": 3,
      "source-quench": 4,
      redirect: 5,
      "echo-request": 8,
      "time-exceeded": 11,
      "parameter-problem": 12,
    },
  }),
  icmp_code: integer("icmp_code", 32, 1, 2, { symbols: { "port-unreachable": 3, "frag-needed": 4 } }),
  icmpv6_type: integer("icmpv6_type", 29, 1, 2, {
    symbols: {
      "destination-unreachable": 1,
      "packet-too-big": 2,
      "time-exceeded": 3,
      "parameter-problem": 4,
      "echo-request": 128,
      "mld-listener-query": 130,
      "mld-listener-report": 131,
      "mld-listener-done": 132,
      "nd-router-solicit": 133,
      "nd-router-advert": 134,
      "nd-neighbor-solicit": 135,
      "nd-neighbor-advert": 136,
      "nd-redirect": 137,
      "mld2-listener-report": 143,
    },
  }),
  igmp_type: integer("igmp_type", 42, 1, 2, {
    symbols: {
      "membership-report-v1": 0x12,
      "membership-report-v2": 0x16,
      "leave-group": 0x17,
      "membership-report-v3": 0x22,
    },
  }),
  tcp_flag: integer("tcp_flag", 15, 1, 2, {
    isBitmask: true,
    symbols: { syn: 2, rst: 4 },
  }),
  nf_proto: integer("nf_proto", 2, 1, 1, { symbols: { ipv4: 2, ipv6: 10 } }),
  /** ARPHRD_* (include/uapi/linux/if_arp.h). */
  iface_type: integer("iface_type", 21, 2, 1, { symbols: { ether: 1 } }),
  mark: integer("mark", 19, 4, 1, { text: hexadecimal }),
  classid: integer("classid", 23, 4, 1, { symbols: { none: 0, root: 0xffff_ffff }, text: trafficClass }),
  integer: integer("integer", 4, 4, 1),
  byte: integer("byte", 4, 1, 2),
  short: integer("short", 4, 2, 2),
  /** Whether a header exists. */
  boolean: integer("boolean", 36, 1, 1, { symbols: { missing: 0, exists: 1 } }),
  sixteen_bytes: sixteenBytes,
  ifname: interfaceName,
  ct_state: integer("ct_state", 26, 4, 1, {
    isBitmask: true,
    symbols: { invalid: 1, established: 2, related: 4, new: 8, untracked: 64 },
  }),
  ct_dir: integer("ct_dir", 27, 1, 1, { symbols: { original: 0, reply: 1 } }),
  ct_status: integer("ct_status", 28, 4, 1, {
    isBitmask: true,
    symbols: { expected: 1, "seen-reply": 2, assured: 4, confirmed: 8, snat: 16, dnat: 32, dying: 512 },
  }),
  ct_label: connectionLabel,
  // nft takes it for a plain integer that only `typeof` names.
  ct_id: integer("ct_id", 4, 4, 2),
  pkt_type: integer("pkt_type", 31, 1, 1, { symbols: { host: 0, broadcast: 1, multicast: 2, other: 3 } }),
  fib_addrtype: integer("fib_addrtype", 38, 4, 1, {
    symbols: { unicast: 1, local: 2, broadcast: 3, anycast: 4, multicast: 5 },
  }),
};

/** Returns the bytes that a value takes in a concatenation: fields start at multiples of four. */
export function paddedSize(type: DataType): number {
  return (type.size + 3) & ~3;
}

const CONCATENATION_BITS = 6;

/** Returns nft's number of a type or of a concatenation of types (concat_subtype_add in nft's datatype.h). */
export function typeNumber(types: readonly DataType[]): number {
  let number = 0;
  for (const type of types) number = number * 2 ** CONCATENATION_BITS + type.id;
  return number;
}
