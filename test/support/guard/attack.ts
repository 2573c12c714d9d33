import { type Address, addressPlus, parseAddress } from "../../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes, macToBytes } from "../../../kernel/ip/mac.ts";
import { BROADCAST_MAC, encodeArp, encodeIp, type Frame, type IpPacket } from "../../lab/probe/frame.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import type { GuardedNode } from "./guarded_node.ts";

/** The group of all hosts of the link. */
export const ALL_NODES: Address = parseAddress("ff02::1");
/** The source address of a host without an address. */
export const UNSPECIFIED = { 4: parseAddress("0.0.0.0"), 6: parseAddress("::") } as const;
/**
 * The MAC addresses at which the node's IP layer accepts frames: a pod may send to either, whichever way its own
 * packets take.
 */
export const GATEWAYS: readonly { readonly name: string; readonly mac: (on: GuardedNode) => MacAddress }[] = [
  { name: "the bridge", mac: ({ bridge }) => bridge.mac },
  { name: "its port", mac: ({ attacker }) => attacker.record.hostMac },
];
const NO_MAC = macFromBytes(new Uint8Array(6));

/** Frames of the attacker that arrive at some party without the guard, and must not arrive with it. */
export interface Attack {
  readonly title: string;
  /** The party at which they arrive. */
  readonly seenBy: "victim" | "third" | "bridge";
  /** The rule that must drop them. */
  readonly reason: string;
  /** The rule that drops them earlier where br_netfilter is on. */
  readonly earlierReason?: string;
  readonly frames: (on: GuardedNode, token: Token) => readonly Frame[];
}

/** Returns the frame that carries a packet between these stations. */
export function ip(from: MacAddress, to: MacAddress, packet: IpPacket): Frame {
  return { from, to, ...encodeIp(packet) };
}

/**
 * Returns a nonce option (RFC 3971, 22 bytes for it), by which the test recognises its message of neighbour discovery.
 */
export function nonce(token: Token): readonly number[] {
  return [14, 3, ...token, ...new Uint8Array(22 - token.length)];
}

/** Returns the option with a link-layer address: type 1 is the source's, 2 the target's. */
export function linkLayer(type: 1 | 2, mac: MacAddress): readonly number[] {
  return [type, 1, ...macToBytes(mac)];
}

/** Returns a broadcast ARP request, with the token in its padding. */
export function arp(from: MacAddress, senderMac: MacAddress, sender: Address, target: Address, token: Token): Frame {
  const { type, payload } = encodeArp({ operation: "request", senderMac, sender, targetMac: NO_MAC, target });
  return { from, to: BROADCAST_MAC, type, payload: Uint8Array.of(...payload, ...token, 0, 0) };
}

/** Returns the group where the owner of an address listens for solicitations (RFC 4291 section 2.7.1). */
export function solicitedNode(address: Address): Address {
  return addressPlus(parseAddress("ff02::1:ff00:0"), BigInt(address) & 0xffffffn) ?? ALL_NODES;
}
