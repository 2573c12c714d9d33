import { addressToBytes, parseAddress } from "../../../kernel/ip/address.ts";
import { BROADCAST_MAC, encodeIcmpv6, encodeUdp, multicastMac } from "../../lab/probe/frame.ts";
import { ALL_NODES, arp, type Attack, ip, linkLayer, nonce, solicitedNode, UNSPECIFIED } from "./attack.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const { SOURCE, LINK } = DropReason;
const Icmpv6 = { ROUTER_ADVERTISEMENT: 134, NEIGHBOUR_SOLICITATION: 135, NEIGHBOUR_ADVERTISEMENT: 136, REDIRECT: 137 };

/** Frames with false claims about the owner of an address. */
export const NEIGHBOUR_ATTACKS: readonly Attack[] = [
  {
    title: 'gratuitous ARP "the gateway is me"',
    seenBy: "third",
    reason: SOURCE,
    frames: ({ attacker, bridge }, token) => [
      arp(attacker.mac, attacker.mac, bridge.addresses[4], bridge.addresses[4], token),
    ],
  },
  {
    title: 'ARP "the victim is me" to the node',
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker, victim, bridge }, token) => [
      arp(attacker.mac, attacker.mac, victim.addresses[4], bridge.addresses[4], token),
    ],
  },
  {
    title: "ARP of an own address at another's MAC",
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker, victim, bridge }, token) => [
      arp(attacker.mac, victim.mac, attacker.addresses[4], bridge.addresses[4], token),
    ],
  },
  {
    title: "ARP request for the victim",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker, victim }, token) => [
      arp(attacker.mac, attacker.mac, attacker.addresses[4], victim.addresses[4], token),
    ],
  },
  {
    title: 'neighbour advertisement "the gateway is me"',
    seenBy: "third",
    reason: LINK,
    earlierReason: DropReason.ADVERTISED,
    frames: ({ attacker, bridge }, token) => {
      const body = [
        0x20,
        0,
        0,
        0,
        ...addressToBytes(bridge.addresses[6]),
        ...linkLayer(2, attacker.mac),
        ...nonce(token),
      ];
      const from = attacker.addresses["link-local"];
      const packet = encodeIcmpv6(from, ALL_NODES, Icmpv6.NEIGHBOUR_ADVERTISEMENT, body);
      return [ip(attacker.mac, multicastMac(ALL_NODES), packet)];
    },
  },
  {
    title: "neighbour solicitation for the victim",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker, victim }, token) => {
      const body = [0, 0, 0, 0, ...addressToBytes(victim.addresses[6]), ...linkLayer(1, attacker.mac), ...nonce(token)];
      const to = solicitedNode(victim.addresses[6]);
      const packet = encodeIcmpv6(attacker.addresses[6], to, Icmpv6.NEIGHBOUR_SOLICITATION, body);
      return [ip(attacker.mac, multicastMac(to), packet)];
    },
  },
  {
    title: "duplicate address detection with another's MAC",
    seenBy: "bridge",
    reason: SOURCE,
    frames: ({ attacker, victim }, token) => {
      const body = [0, 0, 0, 0, ...addressToBytes(attacker.addresses[6]), ...nonce(token)];
      const packet = encodeIcmpv6(UNSPECIFIED[6], ALL_NODES, Icmpv6.NEIGHBOUR_SOLICITATION, body);
      return [{ ...ip(attacker.mac, multicastMac(ALL_NODES), packet), from: victim.mac }];
    },
  },
  {
    title: "router advertisement",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker }, token) => {
      const body = [64, 0, 0x07, 0x08, ...new Uint8Array(8), ...nonce(token)];
      const packet = encodeIcmpv6(attacker.addresses["link-local"], ALL_NODES, Icmpv6.ROUTER_ADVERTISEMENT, body);
      return [ip(attacker.mac, multicastMac(ALL_NODES), packet)];
    },
  },
  {
    title: "DHCP offer to all hosts of the link",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker }, token) => [
      ip(attacker.mac, BROADCAST_MAC, encodeUdp(attacker.addresses[4], parseAddress("255.255.255.255"), 68, token)),
    ],
  },
  {
    title: "DHCPv6 answer to the victim",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker, victim }, token) => {
      const [from, to] = [attacker.addresses["link-local"], victim.addresses["link-local"]];
      return [ip(attacker.mac, victim.mac, encodeUdp(from, to, 546, token))];
    },
  },
  {
    title: "IPv6 redirect in the gateway's name",
    seenBy: "victim",
    reason: SOURCE,
    frames: ({ attacker, bridge, victim, third }, token) => {
      const targets = [...addressToBytes(attacker.addresses["link-local"]), ...addressToBytes(third.addresses[6])];
      const from = bridge.addresses["link-local"];
      const body = [0, 0, 0, 0, ...targets, ...nonce(token)];
      const packet = encodeIcmpv6(from, victim.addresses[6], Icmpv6.REDIRECT, body);
      return [ip(attacker.mac, victim.mac, packet)];
    },
  },
];
