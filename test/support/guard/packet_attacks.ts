import { type Address, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { BROADCAST_MAC, encodeUdp, EtherType, type Frame, type IpPacket, multicastMac } from "../../lab/probe/frame.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import { ALL_NODES, type Attack, GATEWAYS, ip } from "./attack.ts";
import type { GuardedNode } from "./guarded_node.ts";
import { PORT, VIRTUAL } from "./virtual_addresses.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const { SOURCE, PROTOCOL, LINK } = DropReason;
const BROADCAST = parseAddress("255.255.255.255");

/** Spoofs: packets with another pod's source address. */
const spoofs: readonly Attack[] = FAMILIES.flatMap((family): readonly Attack[] => {
  const spoofed = ({ third }: GuardedNode, to: Address, token: Token): IpPacket =>
    encodeUdp(third.addresses[family], to, PORT, token);
  const to = (title: string, frame: (on: GuardedNode, token: Token) => Frame): Attack => ({
    title: `IPv${family}, spoofed source ${title}`,
    seenBy: "victim",
    reason: SOURCE,
    frames: (on, token) => [frame(on, token)],
  });
  return [
    ...GATEWAYS.flatMap(({ name, mac }) => [
      to(`routed by ${name}`, (on, token) =>
        ip(on.attacker.mac, mac(on), spoofed(on, on.victim.addresses[family], token)),
      ),
      to(`with the spoofed pod's MAC, too, routed by ${name}`, (on, token) =>
        ip(on.third.mac, mac(on), spoofed(on, on.victim.addresses[family], token)),
      ),
      to(`to a Service by ${name}`, (on, token) =>
        ip(on.attacker.mac, mac(on), spoofed(on, VIRTUAL.other[family], token)),
      ),
      to(`from outside of the pod range, routed by ${name}`, (on, token) => {
        const foreign = parseAddress(family === 4 ? "10.244.1.199" : "fd00:244:1::ffff");
        return ip(on.attacker.mac, mac(on), encodeUdp(foreign, on.victim.addresses[family], PORT, token));
      }),
    ]),
    to("on the link", (on, token) =>
      ip(on.attacker.mac, on.victim.mac, spoofed(on, on.victim.addresses[family], token)),
    ),
    {
      ...to("in a frame with VLAN id 0", (on, token) => ({
        ...ip(on.third.mac, on.victim.mac, spoofed(on, on.victim.addresses[family], token)),
        tags: [{ type: EtherType.VLAN, id: 0 }],
      })),
      reason: PROTOCOL,
    },
  ];
});

/** Attacks with the attacker's own source address: from pod to pod past the node's IP layer, or with tags. */
const direct: readonly Attack[] = [
  ...FAMILIES.flatMap((family): readonly Attack[] => {
    const own = (on: GuardedNode, token: Token): Frame =>
      ip(
        on.attacker.mac,
        on.victim.mac,
        encodeUdp(on.attacker.addresses[family], on.victim.addresses[family], PORT, token),
      );
    const tagged = (title: string, ...tags: Required<Frame>["tags"]): Attack => ({
      title: `IPv${family} on the link, ${title}`,
      seenBy: "victim",
      reason: PROTOCOL,
      frames: (on, token) => [{ ...own(on, token), tags }],
    });
    return [
      {
        title: `IPv${family} on the link`,
        seenBy: "victim",
        reason: LINK,
        frames: (on, token) => [own(on, token)],
      },
      tagged("VLAN id 0", { type: EtherType.VLAN, id: 0 }),
      tagged("VLAN id 5", { type: EtherType.VLAN, id: 5 }),
      tagged("service VLAN id 0", { type: EtherType.SERVICE_VLAN, id: 0 }),
      tagged("two tags", { type: EtherType.SERVICE_VLAN, id: 0 }, { type: EtherType.VLAN, id: 0 }),
      ...GATEWAYS.map(({ name, mac }): Attack => ({
        title: `IPv${family} routed by ${name}, VLAN id 0`,
        seenBy: "victim",
        reason: PROTOCOL,
        frames: (on, token) => [{ ...own(on, token), to: mac(on), tags: [{ type: EtherType.VLAN, id: 0 }] }],
      })),
    ];
  }),
  {
    title: "IPv6 on the link, after an extension header",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker, victim }, token) => [
      ip(attacker.mac, victim.mac, {
        ...encodeUdp(attacker.addresses[6], victim.addresses[6], PORT, token),
        hopByHop: Uint8Array.of(1, 4, 0, 0, 0, 0),
      }),
    ],
  },
  {
    title: "from link-local to link-local address",
    seenBy: "victim",
    reason: LINK,
    frames: ({ attacker, victim }, token) => [
      ip(
        attacker.mac,
        victim.mac,
        encodeUdp(attacker.addresses["link-local"], victim.addresses["link-local"], PORT, token),
      ),
    ],
  },
];

/** Attacks on all pods at once. */
const groups: readonly Attack[] = [
  ...[BROADCAST, parseAddress("10.244.1.255")].flatMap((to, i) =>
    [true, false].map((isFlood): Attack => ({
      title: `IPv4 ${i === 0 ? "limited" : "subnet"} broadcast ${isFlood ? "flooded" : "to one MAC"}`,
      seenBy: "victim",
      reason: LINK,
      frames: ({ attacker, victim }, token) => [
        ip(attacker.mac, isFlood ? BROADCAST_MAC : victim.mac, encodeUdp(attacker.addresses[4], to, PORT, token)),
      ],
    })),
  ),
  ...([6, "link-local"] as const).flatMap((source) =>
    [true, false].map((isFlood): Attack => ({
      title: `ff02::1 ${isFlood ? "flooded" : "to one MAC"} from the ${source === 6 ? "pod's" : "link-local"} address`,
      seenBy: "victim",
      reason: LINK,
      frames: ({ attacker, victim }, token) => [
        ip(
          attacker.mac,
          isFlood ? multicastMac(ALL_NODES) : victim.mac,
          encodeUdp(attacker.addresses[source], ALL_NODES, PORT, token),
        ),
      ],
    })),
  ),
];

/** Attacks with IP packets. */
export const PACKET_ATTACKS: readonly Attack[] = [...spoofs, ...direct, ...groups];
