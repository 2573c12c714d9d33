import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import {
  type Address,
  addressToBytes,
  type Family,
  formatAddress,
  parseAddress,
  FAMILIES,
  addressPlus,
} from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import {
  encodeArp,
  encodeFrame,
  encodeIcmpv6,
  encodeUdp,
  type Frame,
  type IpPacket,
  multicastMac,
} from "../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { ip, linkLayer, ALL_NODES } from "../../support/guard/attack.ts";
import { eventually, type GuardedNode, type Party } from "../../support/guard/guarded_node.ts";
import { newToken } from "../../support/guard/token.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { type MacAddress, macFromBytes } from "../../../kernel/ip/mac.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { internetChecksum } from "../../lab/probe/raw_packet.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

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
const GROUPS: Readonly<Record<Family, Address>> = {
  4: parseAddress("239.107.1.7"),
  6: parseAddress("ff15::107:7"),
};

/** Returns the Ethernet address of a group (RFC 1112 section 6.4, RFC 2464 section 7). */
function groupMac(family: Family, group: Address): MacAddress {
  if (family === 6) return multicastMac(group);
  const [, second = 0, third = 0, fourth = 0] = addressToBytes(group);
  return macFromBytes(Uint8Array.of(1, 0, 0x5e, second & 0x7f, third, fourth));
}

/** Makes a socket of a namespace join a group at its `eth0`, until it is closed. */
function join(namespace: LabNamespace, family: Family, group: Address): ProbeSocket {
  const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
  const index = new Uint8Array(Uint32Array.of(namespace.link("eth0").index).buffer);
  const request = Uint8Array.of(...addressToBytes(group), ...(family === 4 ? new Uint8Array(4) : []), ...index);
  const [level, option] = family === 4 ? [IPPROTO_IP, IP_ADD_MEMBERSHIP] : [IPPROTO_IPV6, IPV6_JOIN_GROUP];
  check(namespace.calls.setsockopt(socket.fd, level, option, request), "join a group");
  return socket;
}

/** Returns a general query, which asks for all memberships. It demands answers within a tenth of a second. */
function generalQuery(sender: Party, family: Family): Frame {
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
function routerMessage(sender: Party, family: Family): Frame {
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
function report(sender: Party, family: Family, number: number): Frame {
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

const PORT = 9117;
const NEIGHBOUR_ADVERTISEMENT = 136;
/** The flags "solicited" and "override", which replaces what is known (RFC 4861 section 4.4). */
const SOLICITED_OVERRIDE = 0x60;
/** Addresses of the pods' networks that no pod has. */
const NOBODY = { 4: parseAddress("10.244.1.240"), 6: parseAddress("fd00:244:1::f0") } as const;
/** The most groups that a bridge remembers by default (BR_MULTICAST_DEFAULT_HASH_MAX). */
const MOST_GROUPS = 4096;
/** Networks on the node's uplink, which nobody answers for. */
const ON_LINK = { 4: "198.18.0.0/16", 6: "fd00:18::/64" } as const;
/** The number of neighbours: few of the thousand that the machine's table has, so that other tests get theirs. */
const NEIGHBOURS = 160;
/** A second, in hundredths of a second. */
const SHORT = "100";

for (const way of OPPOSITE_WAYS) {
  const { title: state } = way;
  describe(`attacks with messages between hosts of a link, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;

    useGuardedNode("link", way, (made) => void (on = made));

    afterEach(() => on.unload());

    const send = (from: Party, frame: Frame): void => from.link.send(encodeFrame(frame));

    const advertisement = (from: Party, source: Address, target: Address): Frame => {
      const body = [SOLICITED_OVERRIDE, 0, 0, 0, ...addressToBytes(target), ...linkLayer(2, from.mac)];
      const packet = encodeIcmpv6(source, on.bridge.addresses[6], NEIGHBOUR_ADVERTISEMENT, body);
      return ip(from.mac, from.gatewayMac, packet);
    };

    const arpReply = (from: Party, sender: Address): Frame => {
      const target = { targetMac: on.bridge.mac, target: on.bridge.addresses[4] };
      const arp = encodeArp({ operation: "reply", senderMac: from.mac, sender, ...target });
      return { from: from.mac, to: on.bridge.mac, ...arp };
    };

    /** Sends a datagram from the node to an address without a known neighbour, and sends answers. @returns its token */
    const askFor = (address: Address, answers: readonly (() => void)[]): Uint8Array => {
      const { node } = on.wired;
      const family = typeof address === "number" ? 4 : 6;
      node.exec("ip", [`-${family}`, "neigh", "flush", "to", formatAddress(address)]);
      const token = newToken();
      const socket = ProbeSocket.open(node, family, SocketType.DATAGRAM);
      socket.sendTo(token, { address, port: PORT });
      for (const answer of answers) answer();
      socket.close();
      return token;
    };

    const knownMac = (address: Address): string | undefined => {
      const family = typeof address === "number" ? "-4" : "-6";
      const text = on.wired.node.exec("ip", [family, "neigh", "show", "to", formatAddress(address)]);
      return / lladdr (\S+)/.exec(text)?.[1];
    };

    /** Returns whether a pod, by default the victim, receives a datagram of the node to the group. */
    const isHeard = async (family: Family, victim = on.victim): Promise<boolean> => {
      const group = GROUPS[family];
      const token = newToken();
      const packet = encodeUdp(on.bridge.addresses[family], group, PORT, token);
      send(on.bridge, ip(on.bridge.mac, groupMac(family, group), packet));
      const fence = newToken();
      send(
        on.bridge,
        ip(on.bridge.mac, victim.mac, encodeUdp(on.bridge.addresses[family], victim.addresses[family], PORT, fence)),
      );
      const seen: Uint8Array[] = [];
      assert.ok(
        await eventually(() => {
          seen.push(...victim.link.received());
          return seen.some((frame) => Buffer.from(frame).includes(Buffer.from(fence)));
        }),
      );
      return seen.some((frame) => Buffer.from(frame).includes(Buffer.from(token)));
    };

    for (const from of ["its own address", "its link-local address"] as const) {
      it(`ENDS-04: a pod that advertises an address nobody has, from ${from}, gets no packet for it`, async () => {
        const { attacker } = on;
        const source = attacker.addresses[from === "its own address" ? 6 : "link-local"];
        const attack = (): void => send(attacker, advertisement(attacker, source, NOBODY[6]));
        const exposed = askFor(NOBODY[6], [attack]);
        assert.ok(await on.arrives(exposed, attacker), "without the rules it arrives");
        on.load();
        askFor(NOBODY[6], [attack]);
        assert.ok(await eventually(() => on.dropped(DropReason.ADVERTISED) === 1), "it is dropped");
        assert.equal(knownMac(NOBODY[6]), undefined);
      });
    }

    it("ENDS-04: a pod that answers ARP for an address nobody has gets no packet for it", async () => {
      const { attacker } = on;
      const attack = (): void => send(attacker, arpReply(attacker, NOBODY[4]));
      const exposed = askFor(NOBODY[4], [attack]);
      assert.ok(await on.arrives(exposed, attacker), "without the rules it arrives");
      on.load();
      askFor(NOBODY[4], [attack]);
      assert.ok(await eventually(() => on.dropped(DropReason.SOURCE) === 1), "it is dropped");
      assert.equal(knownMac(NOBODY[4]), undefined);
    });

    for (const family of FAMILIES) {
      it(`ENDS-04: when the node has lost a neighbour, a pod answers for its own IPv${family} address, and so does a foreign port of the bridge`, async () => {
        on.load();
        for (const party of [on.victim, on.stranger]) {
          const address = party.addresses[family];
          on.wired.node.exec("ip", [`-${family}`, "neigh", "flush", "to", formatAddress(address), "nud", "all"]);
          assert.ok(await on.arrives(askFor(address, []), party));
          assert.equal(knownMac(address), party.mac);
        }
        const { mac, addresses } = on.victim;
        const to = formatAddress(addresses[family]);
        on.wired.node.exec("ip", [
          `-${family}`,
          "neigh",
          "replace",
          to,
          "lladdr",
          mac,
          "dev",
          "cni0",
          "nud",
          "permanent",
        ]);
      });

      it(`ENDS-05: a pod that queries multicast listeners of IPv${family} does not keep other pods from the node's multicast`, async () => {
        const bridge = (...words: readonly string[]) =>
          on.wired.node.exec("ip", ["link", "set", "cni0", "type", "bridge", ...words]);
        bridge("mcast_membership_interval", SHORT, "mcast_querier_interval", SHORT);
        const { attacker, victim } = on;
        const member = join(victim.namespace, family, GROUPS[family]);
        /** Waits until the bridge has forgotten what it has heard so far. */
        const forget = (): Promise<void> => pause(1500);
        // A host reports a second time within a second or so (RFC 3376 section 8.11, RFC 3810 section 9.11).
        await pause(1500);
        // The guard's other rules keep the query from the victim, which would answer it.
        on.load();
        on.wired.node.exec("nft", ["flush", "chain", "bridge", "drawbridge", "multicast"]);
        await forget();
        assert.ok(await isHeard(family), "while nobody asks, the bridge sends everything to everybody");
        send(attacker, generalQuery(attacker, family));
        await pause(250);
        assert.ok(!(await isHeard(family)), "without this rule the bridge takes the attacker for a querier");

        await forget();
        on.load();
        send(attacker, generalQuery(attacker, family));
        assert.ok(await eventually(() => on.dropped(DropReason.QUERY) === 1), "it is dropped");
        await pause(250);
        assert.ok(await isHeard(family));
        member.close();
      });
    }

    for (const family of FAMILIES) {
      it(`ENDS-05: a pod that says by IPv${family} that it is a multicast router does not hear the node's groups`, async () => {
        const node = on.wired.node;
        node.exec("ip", ["link", "set", "cni0", "type", "bridge", "mcast_querier_interval", SHORT]);
        const { attacker, stranger } = on;
        on.load();
        /** Returns whether the attacker hears a group, after a foreign querier has asked for members. */
        const attack = async (): Promise<boolean> => {
          send(stranger, generalQuery(stranger, family));
          send(attacker, routerMessage(attacker, family));
          await pause(250);
          return isHeard(family, attacker);
        };
        assert.ok(!(await attack()));
        const entries = node.exec("bridge", ["fdb", "show", "br", "cni0"]);
        const [, name = ""] = new RegExp(`^${attacker.mac} dev (\\S+)`, "m").exec(entries) ?? [];
        node.exec("bridge", ["link", "set", "dev", name, "mcast_router", "1"]);
        assert.ok(await attack(), "with the kernel's default it hears them");
        node.exec("bridge", ["link", "set", "dev", name, "mcast_router", "0"]);
      });
    }

    for (const family of FAMILIES) {
      it(`SHARE-04: a pod that sends to very many addresses on the node's link has the node look for few neighbours of IPv${family}, and does not keep other pods from theirs`, async () => {
        const { attacker, third, wired } = on;
        const run = (...words: readonly string[]): string => wired.node.exec("ip", [`-${family}`, ...words]);
        run("route", "add", ON_LINK[family], "dev", "uplink");
        let next = parseCidr(ON_LINK[family]).address;
        const attack = (from: Party, packets: number): void => {
          for (let left = packets; left > 0; left--) {
            next = addressPlus(next, 1n) ?? assert.fail();
            send(from, ip(from.mac, from.gatewayMac, encodeUdp(from.addresses[family], next, PORT, newToken())));
          }
        };
        const lookedFor = (): number =>
          run("neigh", "show", "to", ON_LINK[family], "nud", "all").split("\n").length - 1;
        attack(attacker, NEIGHBOURS);
        assert.ok(await eventually(() => lookedFor() === NEIGHBOURS), "without the rules");
        on.load();
        attack(attacker, NEIGHBOURS);
        assert.ok(await eventually(() => on.dropped(DropReason.NEIGHBOUR) > NEIGHBOURS / 5), "most are dropped");
        const before = lookedFor();
        attack(third, 1);
        assert.ok(await eventually(() => lookedFor() === before + 1), "another pod's neighbour");
        run("route", "del", ON_LINK[family], "dev", "uplink");
        run("neigh", "flush", "to", ON_LINK[family], "nud", "all");
        const dropped = on.dropped(DropReason.NEIGHBOUR);
        attack(third, NEIGHBOURS);
        assert.ok(await on.arrives(askFor(third.addresses[family], []), third));
        assert.equal(on.dropped(DropReason.NEIGHBOUR), dropped, "a router is one neighbour");
        run("tuntap", "add", "dev", "tun0", "mode", "tun");
        run("link", "set", "dev", "tun0", "up");
        run("route", "add", ON_LINK[family], "dev", "tun0");
        attack(third, NEIGHBOURS);
        assert.ok(await on.arrives(askFor(third.addresses[family], []), third));
        assert.equal(on.dropped(DropReason.NEIGHBOUR), dropped, "a link without neighbours");
        run("link", "del", "dev", "tun0");
      });
    }

    // These tests are the last, because the bridge forgets the groups only later.
    for (const family of FAMILIES) {
      it(`ENDS-05: a pod that reports more groups of IPv${family} than the bridge remembers does not keep other pods from the node's multicast`, async () => {
        const { attacker, victim, wired } = on;
        on.load();
        const member = join(victim.namespace, family, GROUPS[family]);
        await pause(200);
        assert.ok(await isHeard(family));
        const isFull = (): boolean => / mcast_snooping 0 /.test(wired.node.exec("ip", ["-d", "link", "show", "cni0"]));
        // A busy machine loses some of the reports.
        const sendReports = (): boolean => {
          for (let number = 0; number < MOST_GROUPS + 100; number++) send(attacker, report(attacker, family, number));
          return isFull();
        };
        assert.ok(await eventually(sendReports), "the bridge gives up and sends everything to everybody");
        assert.ok(await isHeard(family));
        const remembered = wired.node.exec("bridge", ["mdb", "show", "dev", "cni0"]).split("\n").length;
        assert.ok(remembered <= MOST_GROUPS + 10, `${remembered} groups`);
        wired.node.exec("ip", ["link", "set", "cni0", "type", "bridge", "mcast_snooping", "1"]);
        member.close();
      });
    }
  });
}
