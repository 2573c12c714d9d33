import { type Address, addressToBytes, type Family, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import {
  encodeIcmpv6,
  encodeIp,
  encodeTcp,
  encodeUdp,
  type Frame,
  type IpPacket,
  TcpFlag,
} from "../../../lab/probe/frame.ts";
import type { Token } from "../../../lab/probe/protocol.ts";
import { internetChecksum } from "../../../lab/probe/raw_packet.ts";
import { ip, nonce } from "../../guard/attack.ts";
import type { GuardedNode, GuardedPod } from "../../guard/guarded_node.ts";
import { PORT, VIRTUAL } from "../../guard/virtual_addresses.ts";
import { encodeFragment, inTwo } from "./fragments.ts";

/** The port of the victim that its policy opens to the attacker. */
export const OPEN_PORT = 9090;
/** The node's port that leads to the port {@link PORT} of the published pod. */
export const HOST_PORT = 8081;

/** The attacked pods: those of the guarded node, and one whose port is published on the node. */
export interface Attacked {
  readonly on: GuardedNode;
  readonly published: GuardedPod;
}

/** Frames of the attacker that reach the attacked pod without our tables, and must not reach it with them. */
export interface PolicyAttack {
  /** The name under which it is known: a CVE, or the document that describes it. */
  readonly source: string;
  readonly title: string;
  readonly seenBy: "victim" | "published";
  readonly frames: (attacked: Attacked, token: Token) => readonly Frame[];
}

const ICMP = 1;
const DESTINATION_OPTIONS = 60;
const FRAGMENTED = 0x4d42;
const IcmpType = { REDIRECT: 5, ECHO_REQUEST: 8 } as const;
const Icmpv6Type = { ECHO_REQUEST: 128 } as const;

function encodeIcmp(from: Address, to: Address, type: number, code: number, body: readonly number[]): IpPacket {
  const message = Uint8Array.of(type, code, 0, 0, ...body);
  const checksum = internetChecksum(message);
  message.set([checksum >> 8, checksum & 0xff], 2);
  return { from, to, protocol: ICMP, payload: message };
}

/** Returns a frame that goes by way of the node, like packets of the pod's own kernel. */
function routed({ attacker }: GuardedNode, packet: IpPacket): Frame {
  return ip(attacker.mac, attacker.gatewayMac, packet);
}

function perFamily(attacks: (family: Family) => readonly PolicyAttack[]): readonly PolicyAttack[] {
  return FAMILIES.flatMap(attacks);
}

/** Packets that a policy denies, on every possible way. */
const denied = perFamily((family) => {
  const attack = (title: string, source: string, packet: (attacked: Attacked, token: Token) => IpPacket) =>
    ({
      source,
      title: `IPv${family}, ${title}`,
      seenBy: "victim",
      frames: (attacked, token) => [routed(attacked.on, packet(attacked, token))],
    }) satisfies PolicyAttack;
  const NO_CVE = "NetworkPolicy";
  return [
    attack("a datagram", NO_CVE, ({ on: { attacker, victim } }, token) =>
      encodeUdp(attacker.addresses[family], victim.addresses[family], PORT, token),
    ),
    attack("data in a SYN", NO_CVE, ({ on: { attacker, victim } }, token) =>
      encodeTcp(
        attacker.addresses[family],
        victim.addresses[family],
        { source: 40_000, destination: PORT },
        TcpFlag.SYN,
        token,
      ),
    ),
    attack("a segment of no connection", NO_CVE, ({ on: { attacker, victim } }, token) =>
      encodeTcp(
        attacker.addresses[family],
        victim.addresses[family],
        { source: PORT, destination: 40_001 },
        TcpFlag.ACK | TcpFlag.PUSH,
        token,
      ),
    ),
    attack("an echo request", NO_CVE, ({ on: { attacker, victim } }, token) => {
      const [from, to] = [attacker.addresses[family], victim.addresses[family]];
      const body = [0, 7, 0, 1, ...token];
      return family === 4
        ? encodeIcmp(from, to, IcmpType.ECHO_REQUEST, 0, body)
        : encodeIcmpv6(from, to, Icmpv6Type.ECHO_REQUEST, body);
    }),
    attack("to a Service of the victim", "kubernetes/kubernetes#3760", ({ on: { attacker } }, token) =>
      encodeUdp(attacker.addresses[family], VIRTUAL.other[family], PORT, token),
    ),
    {
      source: "CVE-2019-9946",
      title: `IPv${family}, to a host port`,
      seenBy: "published",
      frames: ({ on }, token) => [
        routed(
          on,
          encodeUdp(on.attacker.addresses[family], on.wired.addresses[family === 4 ? 0 : 1], HOST_PORT, token),
        ),
      ],
    },
  ];
});

/** Redirects about a connection of the victim's that the attacker has guessed. */
const redirects: readonly PolicyAttack[] = [true, false].map((isOwn) => ({
  source: "CVE-1999-0265",
  title: `ICMP redirect ${isOwn ? "from its own address" : "in the gateway's name"}`,
  seenBy: "victim",
  frames: ({ on }, token) => {
    const { attacker, victim, third, bridge } = on;
    const inner = encodeIp(encodeUdp(victim.addresses[4], third.addresses[4], PORT, token)).payload;
    const body = [...addressToBytes(attacker.addresses[4]), ...inner];
    const from = (isOwn ? attacker : bridge).addresses[4];
    const packet = encodeIcmp(from, victim.addresses[4], IcmpType.REDIRECT, 1, body);
    // The node does not route a packet whose source is its own address.
    return [isOwn ? routed(on, packet) : ip(attacker.mac, victim.mac, packet)];
  },
}));

/** Packets with addresses of the other family in their header. */
const mapped: readonly PolicyAttack[] = [
  {
    source: "draft-itojun-v6ops-v4mapped-harmful",
    title: "the friend's IPv4-mapped address as the source",
    seenBy: "victim",
    frames: ({ on }, token) => {
      const from = v4Mapped(on.third.addresses[4]);
      return [routed(on, encodeUdp(from, on.victim.addresses[6], PORT, token))];
    },
  },
  {
    source: "draft-itojun-v6ops-v4mapped-harmful",
    title: "to the victim's IPv4-mapped address, by its MAC address",
    seenBy: "victim",
    frames: ({ on: { attacker, victim } }, token) => {
      const to = v4Mapped(victim.addresses[4]);
      return [ip(attacker.mac, victim.mac, encodeUdp(attacker.addresses[6], to, PORT, token))];
    },
  },
];

function v4Mapped(address: Address): Address {
  const [a = 0, b = 0, c = 0, d = 0] = addressToBytes(address);
  return parseAddress(`::ffff:${[(a << 8) | b, (c << 8) | d].map((group) => group.toString(16)).join(":")}`);
}

/** The attacks that fail as soon as the kernel tracks connections. */
export const POLICY_ATTACKS: readonly PolicyAttack[] = [...denied, ...redirects, ...mapped];

/**
 * Packets in fragments, to a port that the policy does not open. They reach the victim as fragments where nothing
 * tracks connections; connection tracking reassembles or drops them.
 */
export const FRAGMENT_ATTACKS: readonly PolicyAttack[] = perFamily((family) => {
  const [overlapping, source] =
    family === 4 ? (["RFC 3128", "RFC 1858"] as const) : (["CVE-2012-4444", "RFC 7112"] as const);
  const attack = (
    title: string,
    known: string,
    pieces: (from: Address, to: Address, token: Token) => readonly Pick<Frame, "type" | "payload">[],
  ): PolicyAttack => ({
    source: known,
    title: `IPv${family}, ${title}`,
    seenBy: "victim",
    frames: ({ on: { attacker, victim } }, token) =>
      pieces(attacker.addresses[family], victim.addresses[family], token).map((piece) => ({
        from: attacker.mac,
        to: attacker.gatewayMac,
        ...piece,
      })),
  });
  const ports = { source: 40_002, destination: PORT };
  return [
    attack("a datagram in fragments", source, (from, to, token) =>
      inTwo(encodeUdp(from, to, PORT, token), FRAGMENTED, 8),
    ),
    attack("a TCP header in two fragments", source, (from, to, token) =>
      inTwo(encodeTcp(from, to, ports, TcpFlag.SYN, token), FRAGMENTED + 1, 8),
    ),
    attack("fragments that overlap, the first to an open port", overlapping, (from, to, token) => {
      const open = encodeUdp(from, to, OPEN_PORT, token);
      const shut = encodeUdp(from, to, PORT, token);
      return [
        encodeFragment(open, FRAGMENTED + 2, { offset: 0, isLast: false, payload: open.payload.subarray(0, 16) }),
        encodeFragment(shut, FRAGMENTED + 2, { offset: 0, isLast: false, payload: shut.payload.subarray(0, 24) }),
        encodeFragment(open, FRAGMENTED + 2, { offset: 16, isLast: true, payload: open.payload.subarray(16) }),
      ];
    }),
    attack("a last fragment without the others", source, (from, to, token) => {
      const packet = encodeUdp(from, to, PORT, token);
      return [encodeFragment(packet, FRAGMENTED + 3, { offset: 8, isLast: true, payload: packet.payload.subarray(8) })];
    }),
    ...(family === 4
      ? []
      : [
          attack("a fragment that is the whole packet", "RFC 6946", (from, to, token) => {
            const packet = encodeUdp(from, to, PORT, token);
            return [encodeFragment(packet, FRAGMENTED + 4, { offset: 0, isLast: true, payload: packet.payload })];
          }),
          attack("a first fragment without the ports", "RFC 7112", (from, to, token) => {
            const packet = encodeUdp(from, to, PORT, token);
            // A header of padding (PadN); the datagram follows it in the second fragment.
            const padding = Uint8Array.of(packet.protocol, 0, 1, 4, 0, 0, 0, 0);
            const next = DESTINATION_OPTIONS;
            return [
              encodeFragment(packet, FRAGMENTED + 5, { offset: 0, isLast: false, payload: padding, next }),
              encodeFragment(packet, FRAGMENTED + 5, { offset: 8, isLast: true, payload: packet.payload, next }),
            ];
          }),
        ]),
  ];
});

/**
 * Returns a router advertisement that would make the attacker the default router of every host that accepts it (RFC
 * 4861 section 4.2).
 */
export function routerAdvertisement({ attacker }: GuardedNode, token: Token): IpPacket {
  const ROUTER_ADVERTISEMENT = 134;
  const body = [64, 0, 0x07, 0x08, ...new Uint8Array(8), ...nonce(token)];
  return encodeIcmpv6(attacker.addresses["link-local"], parseAddress("ff02::1"), ROUTER_ADVERTISEMENT, body);
}
