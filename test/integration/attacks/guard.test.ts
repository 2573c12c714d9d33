import assert from "node:assert/strict";
import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { encodeFrame, encodeIp, encodeUdp, type Frame } from "../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { ADDRESSLESS, NEEDLESS_FRAMES } from "../../support/guard/addressless.ts";
import { eventually, type GuardedNode, type Party } from "../../support/guard/guarded_node.ts";
import { NEIGHBOUR_ATTACKS } from "../../support/guard/neighbour_attacks.ts";
import { PACKET_ATTACKS } from "../../support/guard/packet_attacks.ts";
import { fromNode, reservedMac, THEFTS } from "../../support/guard/thefts.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { loadVirtualAddresses, PORT } from "../../support/guard/virtual_addresses.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

for (const way of OPPOSITE_WAYS) {
  const { title: state, bridgeNetfilter, bypassBridge } = way;
  describe(`attacks on pods of the same node, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;

    useGuardedNode("guard", way, (made) => {
      on = made;
      loadVirtualAddresses(on);
    });

    /** Sends a frame from each party to the bridge, which learns the party's port by it even after an attack. */
    const introduce = (): void => {
      for (const { mac, addresses, link } of [on.attacker, on.victim, on.third, on.fourth, on.stranger]) {
        const packet = encodeUdp(addresses[4], on.bridge.addresses[4], PORT, new Uint8Array(16));
        link.send(encodeFrame({ from: mac, to: on.bridge.mac, ...encodeIp(packet) }));
      }
    };

    beforeEach(() => {
      on.unload();
      introduce();
    });

    const send = (from: Party, ...frames: readonly Frame[]): void => {
      for (const frame of frames) from.link.send(encodeFrame(frame));
    };

    /** Returns the frames that arrive at a party up to a later datagram that takes the right way. */
    const arrivedBefore = async (at: Party, from: Party = on.attacker): Promise<readonly Uint8Array[]> => {
      const fence = newToken();
      const packet = encodeUdp(from.addresses[4], at.addresses[4], PORT, fence);
      const isFence = (frame: Uint8Array): boolean => carries(frame, fence);
      const arrived: Uint8Array[] = [];
      send(from, { from: from.mac, to: from.gatewayMac, ...encodeIp(packet) });
      const isThere = (): boolean => {
        arrived.push(...at.link.received());
        return arrived.some(isFence);
      };
      assert.ok(await eventually(isThere), "a datagram on the right way arrives");
      return arrived;
    };

    for (const attack of [...PACKET_ATTACKS, ...NEIGHBOUR_ATTACKS, ...NEEDLESS_FRAMES]) {
      const { title, seenBy, reason, earlierReason, frames } = attack;
      const id = reason === DropReason.LINK ? "GUARD-02" : "GUARD-01";
      it(`${id}: ${title}: the guard drops the frame`, async () => {
        const exposed = newToken();
        send(on.attacker, ...frames(on, exposed));
        assert.ok(await on.arrives(exposed, on[seenBy]), "without the guard it arrives");

        on.load();
        const guarded = newToken();
        send(on.attacker, ...frames(on, guarded));
        assert.ok(
          !(await arrivedBefore(on[seenBy])).some((frame) => carries(frame, guarded)),
          "with the guard it does not",
        );
        const counting = bridgeNetfilter && earlierReason !== undefined ? earlierReason : reason;
        assert.ok(on.dropped(counting) >= 1, `"${counting}" has counted it`);
      });
    }

    for (const { title, reason, frame } of THEFTS) {
      it(`GUARD-01 GUARD-03: stealing the victim's MAC by ${title} fails with the guard`, async () => {
        const { attacker, victim, bridge } = on;
        /** Returns the parties that get the node's next frame to the victim; the bridge has one port for it. */
        const receivers = async (): Promise<readonly Party[]> => {
          const token = newToken();
          const found = new Set<Party>();
          send(attacker, frame(on));
          send(bridge, fromNode(on, token));
          const hasFound = (): boolean => {
            for (const at of [attacker, victim])
              if (at.link.received().some((received) => carries(received, token))) found.add(at);
            return found.size > 0;
          };
          assert.ok(await eventually(hasFound));
          hasFound();
          return [...found];
        };

        // The bridge has the ports of pods as fixed entries and learns no others. A pod without an entry has only the
        // guard.
        const unguarded = bypassBridge ? victim : attacker;
        if (!bypassBridge) {
          const { mac, record } = victim;
          on.wired.node.exec("bridge", ["fdb", "del", mac, "dev", record.hostInterface, "master"]);
          introduce();
        }
        assert.deepEqual(await withDefaultPort(receivers), [unguarded], "without the guard");
        on.load();
        introduce();
        assert.deepEqual(await receivers(), [victim], "with the guard the victim");
        assert.equal(on.dropped(reason), 1);
      });
    }

    /** Runs an action with the attacker's port as the kernel makes it, without what the plugin sets for the guard. */
    const withDefaultPort = async <T>(action: () => Promise<T>): Promise<T> => {
      const port = on.attacker.record.hostInterface;
      const ip = (...words: readonly string[]): string => on.wired.node.exec("ip", words);
      const [, asWired] = /group_fwd_mask (\S+)/.exec(ip("-d", "link", "show", "dev", port)) ?? [];
      assert.ok(asWired !== undefined);
      ip("link", "set", port, "type", "bridge_slave", "group_fwd_mask", "0");
      try {
        return await action();
      } finally {
        ip("link", "set", port, "type", "bridge_slave", "group_fwd_mask", asWired);
      }
    };

    it("GUARD-03: a packet in a frame to a reserved address reaches the node by the bridge or not at all", async () => {
      using responder = nodeSocket();
      const packet = (): { readonly token: Uint8Array; readonly frame: Frame } => {
        const token = newToken();
        const udp = encodeUdp(on.attacker.addresses[4], on.wired.addresses[0], PORT, token);
        return { token, frame: { from: on.attacker.mac, to: reservedMac(0x0e), ...encodeIp(udp) } };
      };
      // Strict reverse path filtering would drop it by chance; not every node has it.
      on.wired.node.writeSysctl("net/ipv4/conf/all/rp_filter", "0");
      on.wired.node.writeSysctl(`net/ipv4/conf/${on.attacker.record.hostInterface}/rp_filter`, "0");
      await withDefaultPort(async () => {
        const exposed = packet();
        send(on.attacker, exposed.frame);
        assert.ok(
          await eventually(() => responder.hasReceived(exposed.token)),
          "without the guard it comes by the port",
        );
        on.load();
        const guarded = packet();
        send(on.attacker, guarded.frame);
        assert.ok(await eventually(() => on.dropped(DropReason.PORT) === 1), "with the guard it is dropped");
        assert.ok(!responder.hasReceived(guarded.token));
      });
      const bridged = packet();
      send(on.attacker, bridged.frame);
      assert.ok(await on.arrives(bridged.token, on.bridge), "as the plugin sets the port, it comes by the bridge");
      assert.equal(on.dropped(DropReason.PORT), 1);
      on.wired.node.writeSysctl("net/ipv4/conf/all/rp_filter", "1");
    });

    const nodeSocket = () => {
      const socket = ProbeSocket.open(on.wired.node, 4, SocketType.DATAGRAM);
      socket.bind({ address: on.wired.addresses[0], port: PORT });
      return {
        hasReceived: (token: Uint8Array) =>
          [...socket.drain()].some((next) => next.kind === "data" && carries(next.data, token)),
        [Symbol.dispose]: () => socket.close(),
      };
    };

    for (const family of FAMILIES) {
      for (const isStatic of [true, false]) {
        const means = `an on-link route${isStatic ? " and a static neighbour" : ""}`;
        it(`GUARD-02: a packet that a pod's kernel sends to a neighbour by ${means} is dropped, IPv${family}`, async () => {
          const { attacker, victim } = on;
          const to = formatAddress(victim.addresses[family]);
          const ip = (...words: readonly string[]): string => attacker.namespace.exec("ip", [`-${family}`, ...words]);
          const host = `${to}/${family === 4 ? 32 : 128}`;
          ip("route", "add", host, "dev", "eth0");
          if (isStatic) ip("neigh", "replace", to, "lladdr", victim.mac, "dev", "eth0", "nud", "permanent");
          const socket = ProbeSocket.open(attacker.namespace, family, SocketType.DATAGRAM);
          try {
            const exposed = newToken();
            socket.sendTo(exposed, { address: victim.addresses[family], port: PORT });
            assert.ok(await on.arrives(exposed, victim), "without the guard it arrives");

            if (!isStatic) ip("neigh", "flush", "to", to);
            on.load();
            const guarded = newToken();
            const before = on.dropped(DropReason.LINK);
            socket.sendTo(guarded, { address: victim.addresses[family], port: PORT });
            assert.ok(await eventually(() => on.dropped(DropReason.LINK) > before), "with the guard it is dropped");
            assert.ok(!(await arrivedBefore(victim, on.third)).some((frame) => carries(frame, guarded)));
          } finally {
            socket.close();
            ip("route", "del", host, "dev", "eth0");
            ip("neigh", "flush", "to", to);
          }
        });
      }
    }

    it("GUARD-02: a pod cannot mark its own frames as translated ones", async () => {
      on.load();
      const { attacker, victim } = on;
      const mark = "chain out { type filter hook output priority 0\nmeta mark set 0x20000000\n}";
      attacker.namespace.exec("nft", ["-f", "-"], `table inet own {\n${mark}\n}\n`);
      const to = formatAddress(victim.addresses[4]);
      attacker.namespace.exec("ip", ["route", "add", to, "dev", "eth0"]);
      attacker.namespace.exec("ip", ["neigh", "replace", to, "lladdr", victim.mac, "dev", "eth0"]);
      const socket = ProbeSocket.open(attacker.namespace, 4, SocketType.DATAGRAM);
      const token = newToken();
      const before = on.dropped(DropReason.LINK);
      socket.sendTo(token, { address: victim.addresses[4], port: PORT });
      assert.ok(await eventually(() => on.dropped(DropReason.LINK) > before));
      assert.ok(!(await arrivedBefore(victim, on.third)).some((frame) => carries(frame, token)));
      socket.close();
      attacker.namespace.exec("ip", ["route", "del", to]);
      attacker.namespace.exec("ip", ["neigh", "flush", "to", to]);
      attacker.namespace.exec("nft", ["delete", "table", "inet", "own"]);
    });

    for (const { title, frame } of ADDRESSLESS) {
      it(`GUARD-01: ${title} from :: passes with the pod's MAC`, async () => {
        on.load();
        const token = newToken();
        send(on.attacker, frame(on, token));
        assert.ok(await on.arrives(token, on.bridge));
        assert.equal(on.dropped(DropReason.SOURCE), 0);
      });
    }

    it("GUARD-04: the guard drops no frame from a port of the bridge that is not ours", async () => {
      on.load();
      const { stranger, victim } = on;
      for (const family of FAMILIES) {
        const [toPod, spoofed] = [newToken(), newToken()];
        const direct = encodeUdp(stranger.addresses[family], victim.addresses[family], PORT, toPod);
        send(stranger, { from: stranger.mac, to: victim.mac, ...encodeIp(direct) });
        assert.ok(await on.arrives(toPod, victim), "on the link to a pod");
        const other = encodeUdp(on.third.addresses[family], on.bridge.addresses[family], PORT, spoofed);
        send(stranger, { from: stranger.mac, to: on.bridge.mac, ...encodeIp(other) });
        assert.ok(await on.arrives(spoofed, on.bridge), "with any source");
      }
      assert.equal(on.dropped(DropReason.SOURCE) + on.dropped(DropReason.PROTOCOL), 0);
    });
  });
}
