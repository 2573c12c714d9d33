import type { DataType, Scalar } from "./data_type.ts";
import { dataTypes } from "./data_type.ts";

/** Where a packet's header begins (enum nft_payload_bases). */
export type PayloadBase = "link" | "network" | "transport";

/** What has to hold for a field to be there; each is a test that comes before the first use in a rule. */
export interface Presence {
  readonly network?: "ip" | "ip6" | "arp";
  readonly transport?: "tcp" | "udp" | "sctp" | "icmp" | "ipv6-icmp" | "igmp";
}

interface Field {
  readonly base: PayloadBase;
  /** Bytes from the start of the header. */
  readonly offset: number;
  readonly type: DataType;
  readonly presence: Presence;
}

const transport = { base: "transport" } as const;
const network = { base: "network" } as const;
const link = { base: "link" } as const;

/** Header fields by the name nft gives them. `th` reads ports without asking which protocol it is. */
export const payloadFields = {
  "ether daddr": { ...link, offset: 0, type: dataTypes.ether_addr, presence: {} },
  "ether saddr": { ...link, offset: 6, type: dataTypes.ether_addr, presence: {} },
  "ether type": { ...link, offset: 12, type: dataTypes.ether_type, presence: {} },
  "arp operation": { ...network, offset: 6, type: dataTypes.arp_op, presence: { network: "arp" } },
  "arp saddr ether": { ...network, offset: 8, type: dataTypes.ether_addr, presence: { network: "arp" } },
  "arp saddr ip": { ...network, offset: 14, type: dataTypes.ipv4_addr, presence: { network: "arp" } },
  "arp daddr ip": { ...network, offset: 24, type: dataTypes.ipv4_addr, presence: { network: "arp" } },
  "ip length": { ...network, offset: 2, type: dataTypes.short, presence: { network: "ip" } },
  "ip frag-off": { ...network, offset: 6, type: dataTypes.short, presence: { network: "ip" } },
  "ip saddr": { ...network, offset: 12, type: dataTypes.ipv4_addr, presence: { network: "ip" } },
  "ip daddr": { ...network, offset: 16, type: dataTypes.ipv4_addr, presence: { network: "ip" } },
  "ip6 length": { ...network, offset: 4, type: dataTypes.short, presence: { network: "ip6" } },
  "ip6 saddr": { ...network, offset: 8, type: dataTypes.ipv6_addr, presence: { network: "ip6" } },
  "ip6 daddr": { ...network, offset: 24, type: dataTypes.ipv6_addr, presence: { network: "ip6" } },
  "ip6 hoplimit": { ...network, offset: 7, type: dataTypes.byte, presence: { network: "ip6" } },
  "th sport": { ...transport, offset: 0, type: dataTypes.inet_service, presence: {} },
  "th dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: {} },
  "tcp sport": { ...transport, offset: 0, type: dataTypes.inet_service, presence: { transport: "tcp" } },
  "tcp dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: { transport: "tcp" } },
  "tcp flags": { ...transport, offset: 13, type: dataTypes.tcp_flag, presence: { transport: "tcp" } },
  "udp sport": { ...transport, offset: 0, type: dataTypes.inet_service, presence: { transport: "udp" } },
  "udp dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: { transport: "udp" } },
  "sctp sport": { ...transport, offset: 0, type: dataTypes.inet_service, presence: { transport: "sctp" } },
  "sctp dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: { transport: "sctp" } },
  "icmp type": {
    ...transport,
    offset: 0,
    type: dataTypes.icmp_type,
    presence: { network: "ip", transport: "icmp" },
  },
  "icmp code": {
    ...transport,
    offset: 1,
    type: dataTypes.icmp_code,
    presence: { network: "ip", transport: "icmp" },
  },
  "icmpv6 type": {
    ...transport,
    offset: 0,
    type: dataTypes.icmpv6_type,
    presence: { network: "ip6", transport: "ipv6-icmp" },
  },
  // The target of a solicitation or an advertisement, by its place in bits: nft has a name for it from 1.0.7 on. A rule
  // tests before which protocol it is.
  "@th,64,128": {
    ...transport,
    offset: 8,
    type: dataTypes.sixteen_bytes,
    presence: {},
  },
  // A rule tests before that the packet is of IPv4: nft lists that beside it.
  "igmp type": {
    ...transport,
    offset: 0,
    type: dataTypes.igmp_type,
    presence: { transport: "igmp" },
  },
} as const satisfies Readonly<Record<string, Field>>;

export type PayloadName = keyof typeof payloadFields;

interface NumberedKey {
  /** NFT_META_* or NFT_CT_* (include/uapi/linux/netfilter/nf_tables.h). */
  readonly number: number;
  readonly type: DataType;
  /** Of a connection's address: the tuple it is taken from, which is part of the name. */
  readonly direction?: "original" | "reply";
}

/** What a packet carries beside its headers, by nft's name. */
export const metaKeys = {
  "meta protocol": { number: 1, type: dataTypes.ether_type },
  "meta priority": { number: 2, type: dataTypes.classid },
  "meta mark": { number: 3, type: dataTypes.mark },
  iif: { number: 4, type: dataTypes.iface_index },
  oif: { number: 5, type: dataTypes.iface_index },
  iifname: { number: 6, type: dataTypes.ifname },
  oifname: { number: 7, type: dataTypes.ifname },
  "meta nfproto": { number: 15, type: dataTypes.nf_proto },
  "meta l4proto": { number: 16, type: dataTypes.inet_proto },
  "meta pkttype": { number: 19, type: dataTypes.pkt_type },
} as const satisfies Readonly<Record<string, NumberedKey>>;

export type MetaName = keyof typeof metaKeys;

/** What the packet's connection carries, by nft's name. */
export const connectionKeys = {
  "ct state": { number: 0, type: dataTypes.ct_state },
  "ct direction": { number: 1, type: dataTypes.ct_dir },
  "ct status": { number: 2, type: dataTypes.ct_status },
  "ct mark": { number: 3, type: dataTypes.mark },
  "ct label": { number: 13, type: dataTypes.ct_label },
  "ct id": { number: 23, type: dataTypes.ct_id },
  "ct original proto-dst": { number: 12, type: dataTypes.inet_service, direction: "original" },
  "ct original ip saddr": { number: 19, type: dataTypes.ipv4_addr, direction: "original" },
  "ct original ip daddr": { number: 20, type: dataTypes.ipv4_addr, direction: "original" },
  "ct original ip6 saddr": { number: 21, type: dataTypes.ipv6_addr, direction: "original" },
  "ct original ip6 daddr": { number: 22, type: dataTypes.ipv6_addr, direction: "original" },
  "ct reply ip saddr": { number: 19, type: dataTypes.ipv4_addr, direction: "reply" },
  "ct reply ip daddr": { number: 20, type: dataTypes.ipv4_addr, direction: "reply" },
  "ct reply ip6 saddr": { number: 21, type: dataTypes.ipv6_addr, direction: "reply" },
  "ct reply ip6 daddr": { number: 22, type: dataTypes.ipv6_addr, direction: "reply" },
} as const satisfies Readonly<Record<string, NumberedKey>>;

export type ConnectionName = keyof typeof connectionKeys;

/** What the routing table says of an address: its type, by nft's name. */
export const fibKeys = {
  "fib saddr type": { flags: 1, type: dataTypes.fib_addrtype },
  "fib daddr type": { flags: 2, type: dataTypes.fib_addrtype },
} as const;

export type FibName = keyof typeof fibKeys;

/** Whether an IPv6 packet has an extension header, wherever it is among others; by its number (IANA protocol numbers). */
export const extensionKeys = {
  "exthdr frag": { number: 44, type: dataTypes.boolean },
} as const;

export type ExtensionName = keyof typeof extensionKeys;

/** A single value read from the packet or its connection; the text is nft's own. */
export type Selector = PayloadName | MetaName | ConnectionName | FibName | ExtensionName;

/** A value a rule computes. A string is a {@link Selector}. */
export type Expression = Selector | Concatenation | NumberGenerator | JenkinsHash | MapLookup;

/** Several values side by side: the key of a set or map with as many fields. */
export interface Concatenation {
  readonly kind: "concatenation";
  readonly parts: readonly (Selector | NumberGenerator | JenkinsHash)[];
}

/** A random number, 0 to modulus - 1. */
export interface NumberGenerator {
  readonly kind: "numgen";
  readonly modulus: number;
}

/** A hash of values, 0 to modulus - 1: the same for the same values. */
export interface JenkinsHash {
  readonly kind: "jhash";
  readonly of: readonly Selector[];
  readonly modulus: number;
  readonly seed: number;
}

/** The data of a map's element; a packet without an element ends the rule. */
export interface MapLookup {
  readonly kind: "lookup";
  readonly key: Selector | Concatenation;
  readonly map: string;
}

/** Values side by side. */
export function concatenation(...parts: Concatenation["parts"]): Concatenation {
  return { kind: "concatenation", parts };
}

/** A random number below the modulus. */
export function randomNumber(modulus: number): NumberGenerator {
  return { kind: "numgen", modulus };
}

/** What a map holds for a key. */
export function lookup(key: MapLookup["key"], map: string): MapLookup {
  return { kind: "lookup", key, map };
}

/** The data type of a selector. */
export function selectorType(selector: Selector): DataType {
  if (isPayload(selector)) return payloadFields[selector].type;
  if (isMeta(selector)) return metaKeys[selector].type;
  if (isConnection(selector)) return connectionKeys[selector].type;
  if (isExtension(selector)) return extensionKeys[selector].type;
  return fibKeys[selector].type;
}

/** The data types of an expression's fields, one for each part of a concatenation. */
export function expressionTypes(expression: Exclude<Expression, MapLookup>): readonly DataType[] {
  if (typeof expression === "string") return [selectorType(expression)];
  if (expression.kind === "concatenation") return expression.parts.flatMap((part) => expressionTypes(part));
  return [dataTypes.integer];
}

export function isPayload(selector: Selector): selector is PayloadName {
  return Object.hasOwn(payloadFields, selector);
}

export function isMeta(selector: Selector): selector is MetaName {
  return Object.hasOwn(metaKeys, selector);
}

export function isConnection(selector: Selector): selector is ConnectionName {
  return Object.hasOwn(connectionKeys, selector);
}

export function isExtension(selector: Selector): selector is ExtensionName {
  return Object.hasOwn(extensionKeys, selector);
}

/** One field of an element's key: a value, or all values between two. */
export type KeyField = Scalar | Interval;

/** All values from the first to the last, both included. */
export interface Interval {
  readonly first: Scalar;
  readonly last: Scalar;
}
