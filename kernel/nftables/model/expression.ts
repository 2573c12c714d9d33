import type { Transport } from "../../ip/protocol.ts";
import { type DataType, dataTypes, type Scalar } from "./data_type.ts";

/** The header from whose start a field is read (enum nft_payload_bases). */
export type PayloadBase = "link" | "network" | "transport";

/** Conditions under which a field exists. Each is tested before the first use in a rule. */
export interface Presence {
  readonly network?: "ip" | "ip6" | "arp";
  readonly transport?: Transport | "icmp" | "ipv6-icmp" | "igmp";
}

interface Field {
  readonly base: PayloadBase;
  /** The offset from the start of the header, in bytes. */
  readonly offset: number;
  readonly type: DataType;
  readonly presence: Presence;
}

const transport = { base: "transport" } as const;
const network = { base: "network" } as const;
const link = { base: "link" } as const;

/** Header fields by their nft names. `th` reads ports without checking which protocol it is. */
export const payloadFields = {
  "ether saddr": { ...link, offset: 6, type: dataTypes.ether_addr, presence: {} },
  "ether type": { ...link, offset: 12, type: dataTypes.ether_type, presence: {} },
  "arp saddr ether": { ...network, offset: 8, type: dataTypes.ether_addr, presence: { network: "arp" } },
  "arp saddr ip": { ...network, offset: 14, type: dataTypes.ipv4_addr, presence: { network: "arp" } },
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
  "tcp dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: { transport: "tcp" } },
  "tcp flags": { ...transport, offset: 13, type: dataTypes.tcp_flag, presence: { transport: "tcp" } },
  "udp dport": { ...transport, offset: 2, type: dataTypes.inet_service, presence: { transport: "udp" } },
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
  // The target of a solicitation or an advertisement, by its position in bits: nft has a name for it only since 1.0.7.
  // A rule must test the protocol first.
  "@th,64,128": {
    ...transport,
    offset: 8,
    type: dataTypes.sixteen_bytes,
    presence: {},
  },
  // A rule must first test that the packet is IPv4, because nft lists that test separately.
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
  /** For an address or a port of a connection: the tuple that it is read from, which is part of the name. */
  readonly direction?: "original" | "reply";
}

/** Metadata of a packet beside its headers, by nft's name. */
export const metaKeys = {
  "meta protocol": { number: 1, type: dataTypes.ether_type },
  "meta priority": { number: 2, type: dataTypes.classid },
  "meta mark": { number: 3, type: dataTypes.mark },
  iifname: { number: 6, type: dataTypes.ifname },
  oifname: { number: 7, type: dataTypes.ifname },
  "meta oiftype": { number: 9, type: dataTypes.iface_type },
  "meta nfproto": { number: 15, type: dataTypes.nf_proto },
  "meta l4proto": { number: 16, type: dataTypes.inet_proto },
  "meta pkttype": { number: 19, type: dataTypes.pkt_type },
} as const satisfies Readonly<Record<string, NumberedKey>>;

export type MetaName = keyof typeof metaKeys;

/** Data of the packet's connection, by nft's name. */
export const connectionKeys = {
  "ct state": { number: 0, type: dataTypes.ct_state },
  "ct direction": { number: 1, type: dataTypes.ct_dir },
  "ct status": { number: 2, type: dataTypes.ct_status },
  "ct original proto-dst": { number: 12, type: dataTypes.inet_service, direction: "original" },
  "ct label": { number: 13, type: dataTypes.ct_label },
  "ct id": { number: 23, type: dataTypes.ct_id },
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

/** The type of an address in the routing table, by nft's name. */
export const fibKeys = {
  "fib saddr type": { flags: 1, type: dataTypes.fib_addrtype },
  "fib daddr type": { flags: 2, type: dataTypes.fib_addrtype },
} as const;

export type FibName = keyof typeof fibKeys;

/**
 * The next hop on the packet's route, by nft's name: a router's address, otherwise the packet's destination. A rule must
 * first test the packet's family, as another field of it does.
 */
export const routeKeys = {
  "rt ip nexthop": { number: 1, type: dataTypes.ipv4_addr },
  "rt ip6 nexthop": { number: 2, type: dataTypes.ipv6_addr },
} as const;

export type RouteName = keyof typeof routeKeys;

/** Whether an IPv6 packet has an extension header at any position, by its IANA protocol number. */
export const extensionKeys = {
  "exthdr frag": { number: 44, type: dataTypes.boolean },
} as const;

export type ExtensionName = keyof typeof extensionKeys;

/** A single value read from the packet or its connection. The text is nft's own. */
export type Selector = PayloadName | MetaName | ConnectionName | FibName | RouteName | ExtensionName;

/** A value that a rule computes. A string is a {@link Selector}. */
export type Expression = Selector | Concatenation | NumberGenerator | JenkinsHash | MapLookup;

/** Several concatenated values: the key of a set or map with as many fields. */
export interface Concatenation {
  readonly kind: "concatenation";
  readonly parts: readonly (Selector | NumberGenerator | JenkinsHash)[];
}

/** A random number from 0 to modulus - 1. */
export interface NumberGenerator {
  readonly kind: "numgen";
  readonly modulus: number;
}

/** A hash of values from 0 to modulus - 1, equal for equal values. */
export interface JenkinsHash {
  readonly kind: "jhash";
  readonly of: readonly Selector[];
  readonly modulus: number;
  readonly seed: number;
}

/** The data of a map's element. For a packet without an element the rule ends. */
export interface MapLookup {
  readonly kind: "lookup";
  readonly key: Selector | Concatenation;
  readonly map: string;
}

export function concatenation(...parts: Concatenation["parts"]): Concatenation {
  return { kind: "concatenation", parts };
}

/** Returns a random number below the modulus. */
export function randomNumber(modulus: number): NumberGenerator {
  return { kind: "numgen", modulus };
}

export function lookup(key: MapLookup["key"], map: string): MapLookup {
  return { kind: "lookup", key, map };
}

export function selectorType(selector: Selector): DataType {
  if (isPayload(selector)) return payloadFields[selector].type;
  if (isMeta(selector)) return metaKeys[selector].type;
  if (isConnection(selector)) return connectionKeys[selector].type;
  if (isExtension(selector)) return extensionKeys[selector].type;
  if (isRoute(selector)) return routeKeys[selector].type;
  return fibKeys[selector].type;
}

/** Returns the data types of an expression's fields, one for each part of a concatenation. */
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

export function isRoute(selector: Selector): selector is RouteName {
  return Object.hasOwn(routeKeys, selector);
}

/** One field of an element's key: a value or an interval. */
export type KeyField = Scalar | Interval;

/** All values from `first` to `last`, both included. */
export interface Interval {
  readonly first: Scalar;
  readonly last: Scalar;
}
