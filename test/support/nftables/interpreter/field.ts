import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import { protocolNumber } from "../../../../kernel/ip/protocol.ts";
import type { Scalar } from "../../../../kernel/nftables/model/data_type.ts";
import {
  type ConnectionName,
  type FibName,
  isConnection,
  isExtension,
  isMeta,
  isPayload,
  isRoute,
  type MetaName,
  payloadFields,
  type PayloadName,
  type Presence,
  type Selector,
  selectorType,
} from "../../../../kernel/nftables/model/expression.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Connection } from "./flow_table.ts";
import { hasPorts, type WalkedPacket } from "./packet.ts";
import { type Value, valueOf } from "./value.ts";

const transports = { tcp: "tcp", udp: "udp", sctp: "sctp", icmp: "icmp", "ipv6-icmp": "icmpv6", igmp: "igmp" } as const;

/** Returns a field of a packet; undefined where it has none, which ends the rule. */
export function readField(packet: WalkedPacket, surroundings: Surroundings, selector: Selector): Value | undefined {
  if (isPayload(selector)) return typed(selector, readPayload(packet, selector));
  if (isMeta(selector)) return typed(selector, metaReaders[selector](packet));
  if (isConnection(selector)) return readConnection(packet, selector);
  // The interpreter walks only unfragmented packets.
  if (isExtension(selector)) return networkOf(packet) === "ip6" ? typed(selector, "missing") : undefined;
  // Every destination is on a link.
  if (isRoute(selector)) return typed(selector, destination(packet));
  return typed(selector, readFib(packet, surroundings, selector));
}

function typed(selector: Selector, value: Scalar | undefined): Value | undefined {
  return value === undefined ? undefined : valueOf(selectorType(selector), value);
}

function readPayload(packet: WalkedPacket, selector: PayloadName): Scalar | bigint | undefined {
  const { tuple } = packet;
  const { presence }: { presence: Presence } = payloadFields[selector];
  if (presence.network !== undefined && presence.network !== networkOf(packet)) return undefined;
  if (presence.transport !== undefined && transports[presence.transport] !== tuple.protocol) return undefined;
  const read = payloadReaders[selector];
  if (read === undefined) throw new Error(`${selector}: the interpreter walks packets of IP, not frames`);
  return read(packet);
}

type Reader = (packet: WalkedPacket) => Scalar | undefined;

const source: Reader = ({ tuple }) => tuple.source;
const destination: Reader = ({ tuple }) => tuple.destination;
const sourcePort: Reader = (packet) => port(packet, packet.tuple.sourcePort);
const destinationPort: Reader = (packet) => port(packet, packet.tuple.destinationPort);
const icmpType: Reader = (packet) => packet.icmpType;

const payloadReaders: Readonly<Partial<Record<PayloadName, Reader>>> = {
  "ip frag-off": () => 0,
  "ip saddr": source,
  "ip6 saddr": source,
  "ip daddr": destination,
  "ip6 daddr": destination,
  "ip6 hoplimit": ({ hopLimit }) => hopLimit ?? 64,
  "th sport": sourcePort,
  "th dport": destinationPort,
  "tcp dport": destinationPort,
  "udp dport": destinationPort,
  "sctp dport": destinationPort,
  "tcp flags": ({ tcpFlags }) => bits("tcp flags", tcpFlags ?? ["syn"]),
  "icmp type": icmpType,
  "icmp code": () => "port-unreachable",
  // A host answers from the address to which it was asked.
  "@th,64,128": source,
  "icmpv6 type": icmpType,
};

/**
 * Returns a port of the packet. For other protocols the kernel reads the bytes at a port's place; none of our rules
 * uses these.
 */
function port({ tuple }: WalkedPacket, number: number): number | undefined {
  return hasPorts(tuple.protocol) ? number : undefined;
}

/** Reads metadata. Without an interface its name is empty (nft_meta.c). */
const metaReaders: Readonly<Record<MetaName, (packet: WalkedPacket) => Scalar>> = {
  "meta protocol": networkOf,
  "meta nfproto": (packet) => (networkOf(packet) === "ip" ? "ipv4" : "ipv6"),
  "meta l4proto": ({ tuple }) => protocolNumber(tuple.protocol),
  "meta mark": ({ mark }) => mark,
  "meta priority": ({ priority }) => priority ?? 0,
  "meta pkttype": () => "host",
  "meta oiftype": () => "ether",
  iifname: (packet) => packet.in?.name ?? "",
  oifname: (packet) => packet.out?.name ?? "",
};

function readConnection(packet: WalkedPacket, selector: ConnectionName): Value | undefined {
  const { connection, direction } = packet;
  if (selector === "ct state") return BigInt(bits(selector, [stateOf(packet)]));
  if (connection === undefined || direction === undefined) return undefined;
  switch (selector) {
    case "ct direction":
      return typed(selector, direction);
    case "ct status":
      return BigInt(bits(selector, [...connection.status]));
    case "ct label":
      return [...connection.labels].reduce((all, bit) => all | (1n << BigInt(bit)), 0n);
    case "ct id":
      return BigInt(connection.id);
    case "ct original proto-dst":
      return BigInt(connection.original.destinationPort ?? 0);
    default:
      return readConnectionAddress(connection, selector);
  }
}

type ConnectionAddress = Extract<ConnectionName, `${string}addr`>;

function readConnectionAddress({ original, reply }: Connection, selector: ConnectionAddress): bigint | undefined {
  const { source: from, destination: to } = selector.startsWith("ct original") ? original : reply;
  return ofFamily(selector.includes(" ip6 ") ? 6 : 4, selector.endsWith("saddr") ? from : to);
}

function stateOf({ isUntracked, state = "invalid" }: WalkedPacket): string {
  return isUntracked === true ? "untracked" : state;
}

function readFib({ tuple }: WalkedPacket, { fib }: Surroundings, selector: FibName): Scalar {
  return fib(selector === "fib saddr type" ? tuple.source : tuple.destination);
}

function bits(selector: Selector, names: readonly string[]): number {
  const { symbols } = selectorType(selector);
  return names.reduce((all, name) => all | (symbols.get(name) ?? 0), 0);
}

function ofFamily(family: 4 | 6, address: Address): bigint | undefined {
  return familyOf(address) === family ? BigInt(address) : undefined;
}

/** Returns the network protocol of a packet, by nft's name. */
export function networkOf({ tuple }: WalkedPacket): "ip" | "ip6" {
  return familyOf(tuple.source) === 4 ? "ip" : "ip6";
}
