import { type Address, addressToBytes, familyOf } from "../../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes, macToBytes } from "../../../kernel/ip/mac.ts";
import { internetChecksum } from "./raw_packet.ts";

/** The types of an Ethernet frame's contents (include/uapi/linux/if_ether.h). */
export const EtherType = {
  IPV4: 0x0800,
  ARP: 0x0806,
  VLAN: 0x8100,
  IPV6: 0x86dd,
  EAPOL: 0x888e,
  SERVICE_VLAN: 0x88a8,
  /** For experiments on a local network (IEEE 802, local experimental EtherType 1). */
  EXPERIMENTAL: 0x88b5,
  LLDP: 0x88cc,
} as const;

export const IpProtocol = { HOP_BY_HOP: 0, TCP: 6, UDP: 17, ICMPV6: 58 } as const;

export const BROADCAST_MAC = macFromBytes(new Uint8Array(6).fill(0xff));

/** An Ethernet frame; with tags, each with type and VLAN id, outermost first. */
export interface Frame {
  readonly to: MacAddress;
  readonly from: MacAddress;
  readonly tags?: readonly { readonly type: number; readonly id: number }[];
  readonly type: number;
  readonly payload: Uint8Array;
}

/** Returns the bytes of a frame for a packet socket. */
export function encodeFrame({ to, from, tags = [], type, payload }: Frame): Uint8Array {
  const header = tags.flatMap((tag) => [...be16(tag.type), ...be16(tag.id)]);
  return Uint8Array.of(...macToBytes(to), ...macToBytes(from), ...header, ...be16(type), ...payload);
}

/** An IP packet between two addresses of one family. */
export interface IpPacket {
  readonly from: Address;
  readonly to: Address;
  readonly protocol: number;
  readonly payload: Uint8Array;
  /** Only for IPv6: hop-by-hop options before the payload, a multiple of eight bytes with the two of their header. */
  readonly hopByHop?: Uint8Array;
}

/** Returns the Ethernet type and the bytes of a packet; its hop limit is 255, as neighbour discovery demands. */
export function encodeIp({ from, to, protocol, payload, hopByHop }: IpPacket): Pick<Frame, "type" | "payload"> {
  const addresses = [...addressToBytes(from), ...addressToBytes(to)];
  if (familyOf(from) === 4) {
    const header = Uint8Array.of(0x45, 0, ...be16(20 + payload.length), 0, 1, 0, 0, 255, protocol, 0, 0, ...addresses);
    header.set(be16(internetChecksum(header)), 10);
    return { type: EtherType.IPV4, payload: Uint8Array.of(...header, ...payload) };
  }
  const options = hopByHop === undefined ? [] : [protocol, hopByHop.length / 8, ...hopByHop];
  const next = hopByHop === undefined ? protocol : IpProtocol.HOP_BY_HOP;
  const header = [0x60, 0, 0, 0, ...be16(options.length + payload.length), next, 255, ...addresses];
  return { type: EtherType.IPV6, payload: Uint8Array.of(...header, ...options, ...payload) };
}

/** Returns a UDP datagram; its checksum covers the addresses of its packet. */
export function encodeUdp(from: Address, to: Address, port: number, data: Uint8Array): IpPacket {
  const length = 8 + data.length;
  const datagram = Uint8Array.of(...be16(port), ...be16(port), ...be16(length), 0, 0, ...data);
  datagram.set(be16(transportChecksum(from, to, IpProtocol.UDP, datagram) || 0xffff), 6);
  return { from, to, protocol: IpProtocol.UDP, payload: datagram };
}

/** The control bits of a TCP header (RFC 9293 section 3.1). */
export const TcpFlag = { FIN: 1, SYN: 2, RST: 4, PUSH: 8, ACK: 16 } as const;

/** Returns a TCP segment without options; both sequence numbers are one. */
export function encodeTcp(
  from: Address,
  to: Address,
  ports: { readonly source: number; readonly destination: number },
  flags: number,
  data: Uint8Array = new Uint8Array(),
): IpPacket {
  const numbers = [0, 0, 0, 1, 0, 0, 0, 1];
  const header = [
    ...be16(ports.source),
    ...be16(ports.destination),
    ...numbers,
    0x50,
    flags,
    ...be16(8192),
    0,
    0,
    0,
    0,
  ];
  const segment = Uint8Array.of(...header, ...data);
  segment.set(be16(transportChecksum(from, to, IpProtocol.TCP, segment)), 16);
  return { from, to, protocol: IpProtocol.TCP, payload: segment };
}

/** Returns an ICMPv6 message; `body` follows the checksum. */
export function encodeIcmpv6(from: Address, to: Address, type: number, body: readonly number[]): IpPacket {
  const message = Uint8Array.of(type, 0, 0, 0, ...body);
  message.set(be16(transportChecksum(from, to, IpProtocol.ICMPV6, message)), 2);
  return { from, to, protocol: IpProtocol.ICMPV6, payload: message };
}

/** The sender and target fields of an ARP packet (RFC 826). */
export interface Arp {
  readonly operation: "request" | "reply";
  readonly senderMac: MacAddress;
  readonly sender: Address;
  readonly targetMac: MacAddress;
  readonly target: Address;
}

/** Returns the Ethernet type and the bytes of an ARP packet for IPv4 on Ethernet, padded to a frame's length. */
export function encodeArp({ operation, senderMac, sender, targetMac, target }: Arp): Pick<Frame, "type" | "payload"> {
  const head = [0, 1, ...be16(EtherType.IPV4), 6, 4, ...be16(operation === "request" ? 1 : 2)];
  const ends = [
    ...macToBytes(senderMac),
    ...addressToBytes(sender),
    ...macToBytes(targetMac),
    ...addressToBytes(target),
  ];
  return { type: EtherType.ARP, payload: Uint8Array.of(...head, ...ends) };
}

/** Returns the Ethernet address of an IPv6 multicast group (RFC 2464 section 7). */
export function multicastMac(group: Address): MacAddress {
  return macFromBytes(Uint8Array.of(0x33, 0x33, ...addressToBytes(group).subarray(-4)));
}

function transportChecksum(from: Address, to: Address, protocol: number, segment: Uint8Array): number {
  const pseudo = [...addressToBytes(from), ...addressToBytes(to), ...be16(segment.length), 0, protocol];
  return internetChecksum(Uint8Array.of(...pseudo, ...segment));
}

function be16(value: number): readonly [number, number] {
  return [(value >> 8) & 0xff, value & 0xff];
}
