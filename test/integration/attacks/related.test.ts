import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { type Address, type Family, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, type Frame, type IpPacket } from "../../lab/probe/frame.ts";
import { ip } from "../../support/guard/attack.ts";
import { inTwo } from "../../support/policy/attacks/fragments.ts";
import { eventually, type GuardedNode } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { encodeError, type ErrorKind, ERRORS, TOO_BIG } from "../../support/ends/icmp_error.ts";
import { forgetMtus, learnedMtu, Query, type QueryEnds } from "../../support/ends/query.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 5353;
const ECONNREFUSED = 111;
const EHOSTUNREACH = 113;
/** The errno that a program gets for a router's route of the type "unreachable" (ip_error, ip6_pkt_discard). */
const UNREACHABLE = { 4: 113, 6: 101 } as const;

for (const way of OPPOSITE_WAYS) {
  const { title: state } = way;
  describe(`ICMP errors about connections of others, ${state}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;

    useGuardedNode("related", way, (made) => void (on = made));

    afterEach(() => {
      on.unload();
      for (const namespace of [on.wired.node, on.nodes.router, on.victim.namespace]) forgetMtus(namespace);
    });

    const send = (packet: IpPacket): void => {
      const { attacker } = on;
      attacker.link.send(encodeFrame(ip(attacker.mac, attacker.gatewayMac, packet)));
    };

    const routerOf = (family: Family): { readonly namespace: LabNamespace; readonly address: Address } => {
      const [v4, v6] = on.wired.routerAddresses;
      return { namespace: on.nodes.router, address: family === 4 ? v4 : v6 };
    };

    const podOf = (pod: "attacker" | "victim" | "third", family: Family) => ({
      namespace: on[pod].namespace,
      address: on[pod].addresses[family],
    });

    const nodeOf = (family: Family) => {
      const [v4, v6] = on.wired.addresses;
      return { namespace: on.wired.node, address: family === 4 ? v4 : v6 };
    };

    /** Returns queries of which the attacker is not an end. */
    const queriesOfOthers = (family: Family): readonly (QueryEnds & { readonly title: string })[] => [
      { title: "a pod to the outside", from: podOf("victim", family), to: routerOf(family), port: PORT },
      { title: "a pod to a pod", from: podOf("victim", family), to: podOf("third", family), port: PORT + 1 },
      { title: "the node to the outside", from: nodeOf(family), to: routerOf(family), port: PORT + 2 },
      {
        title: "the node to a pod",
        from: { namespace: on.wired.node, address: on.bridge.addresses[family] },
        to: podOf("third", family),
        port: PORT + 3,
      },
    ];

    for (const family of FAMILIES) {
      it(`ENDS-01: no error of IPv${family} that a pod sends ends a query of another pod or of the node`, async () => {
        const kinds = ERRORS[family];
        for (const { title, ...ends } of queriesOfOthers(family)) {
          using query = new Query(ends);
          const attack = (kind: ErrorKind): void =>
            send(encodeError(on.attacker.addresses[family], ends.from.address, kind, query.packet));
          on.unload();
          for (const kind of kinds) {
            await query.send();
            attack(kind);
            let failure: number | undefined;
            assert.ok(
              await eventually(() => (failure ??= query.failure()) !== undefined),
              `${title}, ${kind.what}: without the rules it ends`,
            );
            assert.equal(failure, kind.errno);
          }

          on.load();
          await query.send();
          for (const kind of kinds) attack(kind);
          const isDropped = await eventually(() => on.dropped(DropReason.ERROR) === kinds.length);
          assert.equal(query.failure(), undefined, title);
          assert.ok(isDropped, `${title}: each error is dropped`);
        }
      });

      it(`ENDS-01: an error of IPv${family} about a query that connection tracking has forgotten does not end the query`, async () => {
        const timeout = "net/netfilter/nf_conntrack_udp_timeout";
        const { node } = on.wired;
        const before = node.readSysctl(timeout)?.trim() ?? "30";
        const [first] = ERRORS[family];
        const ends = { from: podOf("victim", family), to: routerOf(family), port: PORT };
        using query = new Query(ends);
        assert.ok(first !== undefined);
        on.load();
        node.writeSysctl(timeout, "1");
        try {
          await query.send();
          await new Promise((resolve) => setTimeout(resolve, 1500));
          send(encodeError(on.attacker.addresses[family], ends.from.address, first, query.packet));
          assert.ok(await eventually(() => on.dropped(DropReason.ERROR) === 1));
          assert.equal(query.failure(), undefined);
        } finally {
          node.writeSysctl(timeout, before);
        }
      });

      it(`ENDS-01: an error of IPv${family} in fragments${family === 6 ? ", or after options," : ""} ends no query of others`, async () => {
        const [kind] = ERRORS[family];
        assert.ok(kind !== undefined);
        const { attacker } = on;
        const inFragments = (packet: IpPacket): readonly Frame[] =>
          inTwo(packet, randomInt(2 ** 16), 16).map((piece) => ({
            from: attacker.mac,
            to: attacker.gatewayMac,
            ...piece,
          }));
        // Options that mean nothing fill the header (PadN).
        const hopByHop = Uint8Array.of(1, 4, 0, 0, 0, 0);
        const afterOptions = (packet: IpPacket): readonly Frame[] => [
          ip(attacker.mac, attacker.gatewayMac, { ...packet, hopByHop }),
        ];
        for (const { title, ...ends } of queriesOfOthers(family).filter((_, number) => number % 2 === 0)) {
          for (const framesOf of [inFragments, ...(family === 6 ? [afterOptions] : [])]) {
            using query = new Query(ends);
            const attack = (): void => {
              const error = encodeError(attacker.addresses[family], ends.from.address, kind, query.packet);
              for (const frame of framesOf(error)) attacker.link.send(encodeFrame(frame));
            };
            on.unload();
            await query.send();
            attack();
            assert.ok(await eventually(() => query.failure() === kind.errno), `${title}: without the rules it ends`);
            on.load();
            await query.send();
            attack();
            assert.ok(await eventually(() => on.dropped(DropReason.ERROR) === 1), `${title}: dropped`);
            assert.equal(query.failure(), undefined, title);
          }
        }
      });

      it(`ENDS-01: no "packet too big" of IPv${family} that a pod sends lowers a path's MTU for another pod or the node`, async () => {
        const kind = TOO_BIG[family];
        for (const { title, ...ends } of queriesOfOthers(family)) {
          using query = new Query(ends);
          const attack = (): void =>
            send(encodeError(on.attacker.addresses[family], ends.from.address, kind, query.packet));
          const learned = (): number | undefined => learnedMtu(ends.from.namespace, ends.to.address);
          on.unload();
          await query.send();
          attack();
          assert.ok(await eventually(() => learned() === kind.mtu), `${title}: without the rules it is lower`);
          forgetMtus(ends.from.namespace);
          on.load();
          await query.send();
          attack();
          assert.ok(await eventually(() => on.dropped(DropReason.ERROR) === 1), `${title}: dropped`);
          assert.equal(learned(), undefined, title);
        }
      });

      it(`ENDS-02: errors of IPv${family} of a connection's own ends and of routers still arrive`, async () => {
        on.load();
        const { attacker, victim } = on;
        for (const { title, ...ends } of queriesOfOthers(family)) {
          using query = new Query(ends);
          await query.send();
          query.sendToNobody();
          let failure: number | undefined;
          assert.ok(await eventually(() => (failure ??= query.failure()) !== undefined), `${title}: port unreachable`);
          assert.equal(failure, ECONNREFUSED, title);
        }
        // A router outside of the node reports about a path.
        const far = {
          namespace: on.nodes.node2.node,
          address: family === 4 ? on.nodes.node2.addresses[0] : on.nodes.node2.addresses[1],
        };
        const route = family === 4 ? `${formatAddress(far.address)}/32` : `${formatAddress(far.address)}/128`;
        const { router } = on.nodes;
        router.exec("ip", ["route", "add", route, "dev", "to-node2", "mtu", "1300"]);
        router.exec("ip", ["route", "flush", "cache"]);
        using toFar = new Query({ from: podOf("victim", family), to: far, port: PORT });
        await toFar.send();
        toFar.sendAgain(1400);
        assert.ok(await eventually(() => learnedMtu(victim.namespace, far.address) === 1300), "the path's MTU");
        toFar.limitHops(2);
        const isTraced = (): boolean => {
          // The kernel reports a pending error instead of sending.
          toFar.sendAgain();
          return toFar.failure() === EHOSTUNREACH;
        };
        assert.ok(await eventually(isTraced), "time exceeded, as traceroute wants it");
        toFar.limitHops(64);
        router.exec("ip", ["route", "del", route]);
        router.exec("ip", ["route", "add", "unreachable", route]);
        const isUnreachable = (): boolean => {
          toFar.sendAgain();
          return toFar.failure() === UNREACHABLE[family];
        };
        assert.ok(await eventually(isUnreachable), "host unreachable");
        router.exec("ip", ["route", "del", "unreachable", route]);
        // A pod reports about a query that it has received itself.
        using own = new Query({ from: podOf("victim", family), to: podOf("attacker", family), port: PORT });
        await own.send();
        send(encodeError(attacker.addresses[family], victim.addresses[family], TOO_BIG[family], own.packet));
        const path = (): number | undefined => learnedMtu(victim.namespace, attacker.addresses[family]);
        assert.ok(await eventually(() => path() === TOO_BIG[family].mtu), "its own path");
        assert.equal(on.dropped(DropReason.ERROR), 0);
      });

      it(`ENDS-03 ENDS-02: a pod with a translated address of IPv${family} does not lower the MTU of the path to that address`, async () => {
        const { wired, nodes } = on;
        const [router, node] = [routerOf(family), nodeOf(family)];
        const kind = TOO_BIG[family];
        const pod = podOf("attacker", family);
        const word = family === 4 ? "ip" : "ip6";
        const published = 7777;
        const own = formatAddress(pod.address);
        const table = [
          "table inet administrator {",
          "chain pre { type nat hook prerouting priority -100;",
          `${word} daddr ${formatAddress(node.address)} udp dport ${published} dnat ${word} to ${own}`,
          "}",
          "chain post { type nat hook postrouting priority 100;",
          `oifname "uplink" ${word} saddr ${own} masquerade`,
          "}",
          "}",
        ];
        wired.node.exec("nft", ["-f", "-"], table.join("\n"));
        const out: QueryEnds = { from: pod, to: router, port: PORT };
        const cases = [
          {
            title: "masqueraded",
            start: () => new Query(out),
            /** Returns the packet of that connection that the attacker has received. */
            about: (query: Query) => query.answer,
          },
          {
            title: "published",
            start: () => new Query({ from: router, to: pod, port: published, via: node.address }),
            about: (query: Query) => query.packet,
          },
        ];
        for (const { title, start, about } of cases) {
          using query = start();
          const learned = (): number | undefined => learnedMtu(nodes.router, node.address);
          const attack = (): void => send(encodeError(pod.address, router.address, kind, about(query)));
          on.unload();
          await query.send();
          attack();
          assert.ok(await eventually(() => learned() === kind.mtu), `${title}: without the rules it is lower`);
          forgetMtus(nodes.router);
          on.load();
          await query.send();
          attack();
          assert.ok(await eventually(() => on.dropped(DropReason.TOO_BIG) === 1), `${title}: dropped`);
          assert.equal(learned(), undefined, title);
          query.sendToNobody();
          let failure: number | undefined;
          assert.ok(await eventually(() => (failure ??= query.failure()) !== undefined), `${title}: port unreachable`);
          assert.equal(failure, ECONNREFUSED, title);
          assert.equal(on.dropped(DropReason.ERROR), 0, title);
        }
        wired.node.exec("nft", ["delete", "table", "inet", "administrator"]);
      });
    }
  });
}
