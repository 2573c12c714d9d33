import { type Address, addressPlus, addressToBytes, type Family, parseAddress } from "../../../kernel/ip/address.ts";
import { type MacAddress, macFromBytes } from "../../../kernel/ip/mac.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeIcmpv6, type Frame, type IpPacket, multicastMac } from "../../lab/probe/frame.ts";
import { internetChecksum } from "../../lab/probe/raw_packet.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { ALL_NODES, ip } from "../guard/attack.ts";
import type { Party } from "../guard/guarded_node.ts";

const IGMP = 2;
const IPPROTO_IP = 0;
const IP_ADD_MEMBERSHIP = 35;
const IPPROTO_IPV6 = 41;
const IPV6_JOIN_GROUP = 20;
const MEMBERSHIP_QUERY = 0x11;
const MEMBERSHIP_REPORT_V2 = 0x16;
const LISTENER_REPORT = 131;
const LISTENER_QUERY = 130;
const PIM = 103;
/** Version 2, type 0. */
const PIM_HELLO = 0x20;
const ALL_PIM_ROUTERS = parseAddress("224.0.0.13");
const ROUTER_ADVERTISEMENT = 151;
const ALL_SNOOPERS = parseAddress("ff02::6a");
const ALL_HOSTS = parseAddress("224.0.0.1");
/** A router alert, without which IPv6 ignores queries and reports (RFC 2710 section 3). */
const ROUTER_ALERT = Uint8Array.of(5, 2, 0, 0, 1, 0);

/** The groups of the tests, none of which a host joins by itself. */
export const GROUPS: Readonly<Record<Family, Address>> = {
  4: parseAddress("239.107.1.7"),
  6: parseAddress("ff15::107:7"),
};

/** Returns the Ethernet address of a group (RFC 1112 section 6.4, RFC 2464 section 7). */
export function groupMac(family: Family, group: Address): MacAddress {
  if (family === 6) return multicastMac(group);
  const [, second = 0, third = 0, fourth = 0] = addressToBytes(group);
  return macFromBytes(Uint8Array.of(1, 0, 0x5e, second & 0x7f, third, fourth));
}

/** Makes a socket of a namespace join a group at its `eth0`, until it is closed. */
export function join(namespace: LabNamespace, family: Family, group: Address): ProbeSocket {
  const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
  const index = new Uint8Array(Uint32Array.of(namespace.link("eth0").index).buffer);
  const request = Uint8Array.of(...addressToBytes(group), ...(family === 4 ? new Uint8Array(4) : []), ...index);
  const [level, option] = family === 4 ? [IPPROTO_IP, IP_ADD_MEMBERSHIP] : [IPPROTO_IPV6, IPV6_JOIN_GROUP];
  check(namespace.calls.setsockopt(socket.fd, level, option, request), "join a group");
  return socket;
}

/** Returns a general query, which asks for all memberships. It demands answers within a tenth of a second. */
export function generalQuery(sender: Party, family: Family): Frame {
  if (family === 6) {
    const body = [0, 100, 0, 0, ...new Uint8Array(16)];
    const packet = encodeIcmpv6(sender.addresses["link-local"], ALL_NODES, LISTENER_QUERY, body);
    return ip(sender.mac, multicastMac(ALL_NODES), { ...packet, hopByHop: ROUTER_ALERT });
  }
  const payload = Uint8Array.of(MEMBERSHIP_QUERY, 1, 0, 0, 0, 0, 0, 0);
  new DataView(payload.buffer).setUint16(2, internetChecksum(payload));
  const packet: IpPacket = { from: sender.addresses[4], to: ALL_HOSTS, protocol: IGMP, payload };
  return ip(sender.mac, groupMac(4, ALL_HOSTS), packet);
}

/** Returns a message by which its sender says that it is a multicast router: PIM's hello (RFC 7761), or RFC 4286's. */
export function routerMessage(sender: Party, family: Family): Frame {
  if (family === 6) {
    const packet = encodeIcmpv6(sender.addresses["link-local"], ALL_SNOOPERS, ROUTER_ADVERTISEMENT, [0, 0, 0, 0]);
    return ip(sender.mac, multicastMac(ALL_SNOOPERS), { ...packet, hopByHop: ROUTER_ALERT });
  }
  const payload = Uint8Array.of(PIM_HELLO, 0, 0, 0);
  new DataView(payload.buffer).setUint16(2, internetChecksum(payload));
  const packet: IpPacket = { from: sender.addresses[4], to: ALL_PIM_ROUTERS, protocol: PIM, payload };
  return ip(sender.mac, groupMac(4, ALL_PIM_ROUTERS), packet);
}

/** Returns a report that its sender is a member of a group; the number chooses the group. */
export function report(sender: Party, family: Family, number: number): Frame {
  const first = family === 4 ? "239.200.0.0" : "ff15::200:0:0";
  const group = addressPlus(parseAddress(first), BigInt(number));
  if (group === undefined) throw new RangeError(`no group ${number}`);
  const bytes = addressToBytes(group);
  if (family === 6) {
    const packet = encodeIcmpv6(sender.addresses["link-local"], group, LISTENER_REPORT, [0, 0, 0, 0, ...bytes]);
    return ip(sender.mac, multicastMac(group), { ...packet, hopByHop: ROUTER_ALERT });
  }
  const payload = Uint8Array.of(MEMBERSHIP_REPORT_V2, 0, 0, 0, ...bytes);
  new DataView(payload.buffer).setUint16(2, internetChecksum(payload));
  return ip(sender.mac, groupMac(4, group), { from: sender.addresses[4], to: group, protocol: IGMP, payload });
}
