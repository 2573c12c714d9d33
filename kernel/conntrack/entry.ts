import { DrawbridgeError } from "../error.ts";
import type { Family } from "../ip/address.ts";
import { familyFromNumber } from "../netlink/address_family.ts";
import { netfilterHeader } from "../netlink/netfilter_message.ts";
import { type AttributeTable, type AttributeValues, be16, be32, be64, nested, u32, u8 } from "../netlink/attribute.ts";
import { type BodyLayout, decodeBody, type ReceivedMessage } from "../netlink/message.ts";
import { type ConntrackLabels, labels } from "./labels.ts";
import { type ConntrackTuple, tupleFrom, tupleTable } from "./tuple.ts";

/** Bits of an entry's status: enum ip_conntrack_status (include/uapi/linux/netfilter/nf_conntrack_common.h). */
export const ConntrackStatus = {
  EXPECTED: 0x1,
  /** Packets have been seen in both directions. */
  SEEN_REPLY: 0x2,
  /** The entry is not dropped early when the table is full. */
  ASSURED: 0x4,
  CONFIRMED: 0x8,
  SOURCE_NAT: 0x10,
  DESTINATION_NAT: 0x20,
  DYING: 0x200,
  OFFLOADED: 0x4000,
} as const;

/** enum tcp_conntrack (include/uapi/linux/netfilter/nf_conntrack_tcp.h), by number. */
const TCP_STATES = [
  "none",
  "syn-sent",
  "syn-received",
  "established",
  "fin-wait",
  "close-wait",
  "last-ack",
  "time-wait",
  "close",
  "syn-sent2",
] as const;

/** The state of a TCP connection as conntrack sees it; a number for a state that has no name here. */
export type TcpState = (typeof TCP_STATES)[number] | number;

/** The directions whose tuples a zone keeps apart. */
export type ZoneDirection = "both" | "original" | "reply";

/** The key of an entry: the tuple of its first packet, within a zone. */
export interface ConntrackKey {
  readonly original: ConntrackTuple;
  /** 0, the default zone, when absent. */
  readonly zone?: number;
  /** "both" when absent. */
  readonly zoneDirection?: ZoneDirection;
  /** With an ID, an entry that has since taken the place of the intended one stays untouched. */
  readonly id?: number;
}

/** An entry of the connection tracking table. */
export interface ConntrackEntry extends Required<ConntrackKey> {
  readonly family: Family;
  /** The tuple of the reply direction. Its source is the actual destination of the flow, after destination NAT. */
  readonly reply: ConntrackTuple;
  /** {@link ConntrackStatus} bits. */
  readonly status: number;
  readonly mark: number;
  /** 0n both when no label is set and when the entry has no room for labels. */
  readonly labels: ConntrackLabels;
  /** The seconds until the entry expires without a packet; undefined when the flow is offloaded or gone. */
  readonly timeout: number | undefined;
  readonly tcpState: TcpState | undefined;
}

/** CTA_COUNTERS_* */
const counterTable = { packets: [1, be64], bytes: [2, be64] } as const satisfies AttributeTable;
/** CTA_PROTOINFO_TCP_* */
const tcpTable = { state: [1, u8] } as const satisfies AttributeTable;

/** CTA_* of conntrack messages. */
export const entryLayout = {
  struct: netfilterHeader,
  attributes: {
    original: [1, nested(tupleTable)],
    reply: [2, nested(tupleTable)],
    status: [3, be32],
    protocolInformation: [4, nested({ tcp: [1, nested(tcpTable)] })],
    timeout: [7, be32],
    mark: [8, be32],
    originalCounters: [9, nested(counterTable)],
    replyCounters: [10, nested(counterTable)],
    /** Opaque. Read in network order, it is the number that nft prints for `ct id`. */
    id: [12, be32],
    zone: [18, be16],
    labels: [22, labels],
    labelsMask: [23, labels],
    /** CTA_FILTER_*: the parts of the tuples that a dump filters by; in host order, unlike all other attributes. */
    filter: [25, nested({ originalFlags: [1, u32], replyFlags: [2, u32] })],
    statusMask: [26, be32],
  },
} as const satisfies BodyLayout;

type EntryValues = AttributeValues<(typeof entryLayout)["attributes"]>;

/**
 * Returns the entry that a conntrack message describes.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it describes none
 */
export function parseEntry(message: ReceivedMessage): ConntrackEntry {
  const { header, attributes: values } = decodeBody(entryLayout, message.body);
  const family = familyFromNumber(header.family);
  if (family === undefined) {
    throw new DrawbridgeError("ERR_NETLINK_MALFORMED", `conntrack entry of family ${header.family}; expected 2 or 10`);
  }
  return {
    family,
    original: tupleFrom(family, values.original),
    reply: tupleFrom(family, values.reply),
    ...zoneFrom(values),
    id: values.id ?? 0,
    status: values.status ?? 0,
    mark: values.mark ?? 0,
    labels: values.labels ?? 0n,
    timeout: values.timeout,
    tcpState: tcpStateFrom(values.protocolInformation?.tcp?.state),
  };
}

function zoneFrom(values: EntryValues): { readonly zone: number; readonly zoneDirection: ZoneDirection } {
  if (values.original?.zone !== undefined) return { zone: values.original.zone, zoneDirection: "original" };
  if (values.reply?.zone !== undefined) return { zone: values.reply.zone, zoneDirection: "reply" };
  return { zone: values.zone ?? 0, zoneDirection: "both" };
}

function tcpStateFrom(number: number | undefined): TcpState | undefined {
  return number === undefined ? undefined : (TCP_STATES[number] ?? number);
}
