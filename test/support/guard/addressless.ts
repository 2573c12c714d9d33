import { addressToBytes, parseAddress } from "../../../kernel/ip/address.ts";
import { BROADCAST_MAC, encodeIcmpv6, encodeUdp, EtherType, type Frame, multicastMac } from "../../lab/probe/frame.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import { ALL_NODES, type Attack, ip, nonce, solicitedNode, UNSPECIFIED } from "./attack.ts";
import type { GuardedNode } from "./guarded_node.ts";
import { PORT } from "./virtual_addresses.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const { SOURCE, PROTOCOL } = DropReason;
const Icmpv6 = { NEIGHBOUR_SOLICITATION: 135, MULTICAST_REPORT_V2: 143 };

/** Frames that a pod never needs to send. */
export const NEEDLESS_FRAMES: readonly Attack[] = [
  {
    title: "IPv4 from 0.0.0.0, as DHCP does it",
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker }, token) => [
      ip(attacker.mac, BROADCAST_MAC, encodeUdp(UNSPECIFIED[4], parseAddress("255.255.255.255"), 67, token)),
    ],
  },
  {
    title: "IPv6 from ::, other than multicast reports",
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker }, token) => [
      ip(attacker.mac, multicastMac(ALL_NODES), encodeUdp(UNSPECIFIED[6], ALL_NODES, PORT, token)),
    ],
  },
  {
    title: "duplicate address detection for the node's address",
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker, bridge }, token) => {
      const target = bridge.addresses[6];
      const to = solicitedNode(target);
      const body = [0, 0, 0, 0, ...addressToBytes(target), ...nonce(token)];
      const packet = encodeIcmpv6(UNSPECIFIED[6], to, Icmpv6.NEIGHBOUR_SOLICITATION, body);
      return [ip(attacker.mac, multicastMac(to), packet)];
    },
  },
  ...(
    [
      ["EAPOL", EtherType.EAPOL],
      ["LLDP", EtherType.LLDP],
      ["experimental", EtherType.EXPERIMENTAL],
      ["802.3", 100],
    ] as const
  ).map(([name, type]): Attack => ({
    title: `a frame of another protocol (${name})`,
    seenBy: "bridge",
    reason: PROTOCOL,
    frames: ({ attacker }, token) => [
      { from: attacker.mac, to: BROADCAST_MAC, type, payload: Uint8Array.of(...token, ...new Uint8Array(84)) },
    ],
  })),
];

/** Frames that a host without an address may send. */
export const ADDRESSLESS: readonly {
  readonly title: string;
  readonly frame: (on: GuardedNode, token: Token) => Frame;
}[] = [
  {
    title: "a multicast report behind a router alert",
    frame: ({ attacker }, token) => {
      const reporters = parseAddress("ff02::16");
      // One record, which includes all sources of a group, whose address is the token (RFC 3810 section 5.2).
      const body = [0, 0, 0, 1, 4, 0, 0, 0, ...token];
      const packet = encodeIcmpv6(UNSPECIFIED[6], reporters, Icmpv6.MULTICAST_REPORT_V2, body);
      return ip(attacker.mac, multicastMac(reporters), { ...packet, hopByHop: Uint8Array.of(5, 2, 0, 0, 1, 0) });
    },
  },
];
