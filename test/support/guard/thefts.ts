import { FAMILIES } from "../../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../../../kernel/ip/mac.ts";
import { encodeUdp, EtherType, type Frame } from "../../lab/probe/frame.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import { arp, GATEWAYS, ip } from "./attack.ts";
import type { GuardedNode } from "./guarded_node.ts";
import { PORT } from "./virtual_addresses.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const { SOURCE, PROTOCOL } = DropReason;

/** Frames from which the bridge would learn that the victim's MAC is at the attacker's port. */
export const THEFTS: readonly {
  readonly title: string;
  readonly reason: string;
  readonly frame: (on: GuardedNode) => Frame;
}[] = [
  ...FAMILIES.flatMap((family) =>
    GATEWAYS.map(({ name, mac }) => ({
      title: `an IPv${family} packet with the own address to ${name}`,
      reason: SOURCE,
      frame: (on: GuardedNode): Frame => {
        const packet = encodeUdp(on.attacker.addresses[family], on.bridge.addresses[family], PORT, new Uint8Array(16));
        return ip(on.victim.mac, mac(on), packet);
      },
    })),
  ),
  {
    title: "ARP whose sender fields are right",
    reason: SOURCE,
    frame: ({ attacker, victim, bridge }) =>
      arp(victim.mac, attacker.mac, attacker.addresses[4], bridge.addresses[4], new Uint8Array(16)),
  },
  ...[0x00, 0x02, 0x03, 0x0e].map((last) => ({
    title: `a frame to the reserved address 01:80:c2:00:00:0${last.toString(16)}`,
    reason: PROTOCOL,
    frame: ({ victim }: GuardedNode): Frame => ({
      from: victim.mac,
      to: reservedMac(last),
      type: EtherType.LLDP,
      payload: new Uint8Array(46),
    }),
  })),
];

/** Returns a reserved group address (IEEE 802.1D, table 7-10), whose frames bridges do not forward. */
export function reservedMac(last: number): MacAddress {
  return macFromBytes(Uint8Array.of(0x01, 0x80, 0xc2, 0, 0, last));
}

/** Returns a datagram from the node's bridge address to a pod, as a frame for which the bridge has to find the port. */
export function fromNode({ bridge, victim }: GuardedNode, token: Token): Frame {
  return ip(bridge.mac, victim.mac, encodeUdp(bridge.addresses[4], victim.addresses[4], PORT, token));
}
