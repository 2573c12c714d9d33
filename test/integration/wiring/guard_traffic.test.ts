import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { receivedRedirects } from "../../lab/probe/counters.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { Poller } from "../../lab/probe/poller.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { udp } from "../../lab/probe/udp.ts";
import { setBridgeNetfilter } from "../../lab/topology.ts";
import { eventually, type GuardedNode } from "../../support/guard/guarded_node.ts";
import type { FlowEnds } from "../../support/policy/cuts/channel.ts";
import { brokenOf, PushFlow } from "../../support/policy/cuts/push_flow.ts";
import { bothAddresses, flowsTo, listenEverywhere, reach } from "../../support/guard/reachability.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { loadVirtualAddresses, PORT, VIRTUAL } from "../../support/guard/virtual_addresses.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { WAYS } from "../../support/guard/ways.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

/** br_netfilter changes nothing for packets that go around the bridge; frames through it are in the other ways. */
const DIFFERENT_WAYS = WAYS.filter(({ bridgeNetfilter, bypassBridge }) => bridgeNetfilter || !bypassBridge);

for (const way of DIFFERENT_WAYS) {
  const { title: state, bridgeNetfilter } = way;
  describe(`guarded traffic, ${state}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: GuardedNode;
    let prober: Prober;

    useGuardedNode("guarded", way, (made, madeIn) => {
      [on, lab] = [made, madeIn];
      loadVirtualAddresses(on);
      prober = new Prober(lab);
      listenEverywhere(prober, on);
    });

    beforeEach(() => {
      on.load();
    });

    /** Asserts that packets get through on every way, and that the guard drops none of them. */
    const reachEveryWay = async (): Promise<void> => {
      const { attacker, victim, third, wired, nodes } = on;
      await reach(prober, [
        ...flowsTo(attacker.namespace, [
          ...bothAddresses(victim),
          ...bothAddresses(third),
          ...wired.addresses,
          ...wired.routerAddresses,
        ]),
        ...flowsTo(victim.namespace, bothAddresses(attacker)),
        ...[wired.node, nodes.router].flatMap((from) =>
          flowsTo(from, [...bothAddresses(attacker), ...bothAddresses(victim)]),
        ),
      ]);
      const { SOURCE, PROTOCOL, PORT: FROM_PORT } = DropReason;
      for (const reason of [SOURCE, PROTOCOL, FROM_PORT]) assert.equal(on.dropped(reason), 0, reason);
    };

    // This test is the first, because the kernel limits how many redirects it sends to one pod.
    it("GUARD-06: 1,000 same-node packets of each family bring no redirect to a pod", async () => {
      const { attacker, victim, third, fourth, wired } = on;
      // The plugin switches IPv4 redirects off as well; here only the rule shall work.
      for (const device of ["all", "cni0"]) wired.node.writeSysctl(`net/ipv4/conf/${device}/send_redirects`, "1");
      const talk = (from: typeof attacker, to: typeof victim, family: 4 | 6): Promise<readonly ProbeResult[]> =>
        prober.run(
          [to.addresses[family], VIRTUAL.other[family]].map((address): Flow => ({
            protocol: "tcp",
            from: from.namespace,
            to: { address, port: PORT },
            exchanges: 500,
          })),
          { timeoutMilliseconds: 10_000 },
        );
      const arrivedAt = (...pods: readonly (typeof attacker)[]): number =>
        pods.reduce((sum, { namespace }) => sum + receivedRedirects(namespace), 0);
      for (const family of FAMILIES) {
        on.unload();
        const before = arrivedAt(attacker, victim);
        await talk(attacker, victim, family);
        assert.ok(arrivedAt(attacker, victim) > before, `IPv${family} redirects arrive without the guard`);

        on.load();
        const guarded = arrivedAt(third, fourth);
        for (const { reached, why } of await talk(third, fourth, family)) assert.ok(reached, why);
        assert.equal(arrivedAt(third, fourth) - guarded, 0);
        assert.ok(on.dropped(DropReason.REDIRECT) > 0, "the kernel has tried to send some");
      }
      for (const device of ["all", "cni0"]) wired.node.writeSysctl(`net/ipv4/conf/${device}/send_redirects`, "0");
    });

    it("POD-10 POD-04 GUARD-01: pods, their node and the outside reach each other", reachEveryWay);

    it("GUARD-01: pods, their node and the outside also reach each other by ARP and neighbour discovery", async () => {
      const { attacker, victim, third, wired } = on;
      for (const { namespace } of [attacker, victim, third]) flushNeighbours(namespace, "eth0");
      flushNeighbours(wired.node, "cni0");
      await reachEveryWay();
      const learned = wired.node.exec("ip", ["neigh", "show", "dev", "cni0"]);
      assert.match(learned, new RegExp(`^${formatAddress(attacker.addresses[6])} lladdr`, "m"));
      assert.doesNotMatch(learned, /PERMANENT/);
    });

    const flushNeighbours = (namespace: LabNamespace, link: string): void => {
      for (const family of ["-4", "-6"])
        namespace.exec("ip", [family, "neigh", "flush", "dev", link, "nud", "permanent"]);
    };

    it("GUARD-01: a pod with several addresses and a MAC of its own choice is reached at each address and sends from each", async () => {
      const { fourth, bridge, wired } = on;
      assert.equal(fourth.mac, parseMac("02:00:00:00:04:04"));
      assert.equal(fourth.record.addresses.length, 3);
      await reach(
        prober,
        flowsTo(
          wired.node,
          fourth.record.addresses.map(({ address }) => address),
          ["icmp"],
        ),
      );
      for (const { address } of fourth.record.addresses) {
        const token = newToken();
        const to = bridge.addresses[typeof address === "number" ? 4 : 6];
        const packet = encodeIp(encodeUdp(address, to, PORT, token));
        fourth.link.send(encodeFrame({ from: fourth.mac, to: bridge.mac, ...packet }));
        assert.ok(await on.arrives(token, bridge), formatAddress(address));
      }
      assert.equal(on.dropped(DropReason.SOURCE), 0);
    });

    it("GUARD-05: a virtual address leads to another pod of the node, which sees the client's own address", async () => {
      const { attacker, victim } = on;
      const results = await reach(prober, flowsTo(attacker.namespace, Object.values(VIRTUAL.other), ["tcp", "udp"]));
      for (const { flow, seenBy, seenSource } of results) {
        assert.equal(seenBy, victim.namespace);
        assert.equal(seenSource, attacker.addresses[typeof flow.to.address === "number" ? 4 : 6]);
      }
    });

    it("GUARD-05: a packet to a virtual address of a pod of the node is bridged with br_netfilter, and routed without it", async () => {
      const { attacker, victim, bridge } = on;
      for (const family of FAMILIES) {
        const token = newToken();
        const packet = encodeIp(encodeUdp(attacker.addresses[family], VIRTUAL.other[family], PORT, token));
        attacker.link.send(encodeFrame({ from: attacker.mac, to: bridge.mac, ...packet }));
        const seen: Uint8Array[] = [];
        const hasArrived = (): boolean => {
          seen.push(...victim.link.received().filter((frame) => carries(frame, token)));
          return seen.length > 0;
        };
        assert.ok(await eventually(hasArrived));
        // The bridge does not change a hop limit; a router decrements it.
        assert.equal(seen[0]?.[family === 4 ? 14 + 8 : 14 + 7], bridgeNetfilter ? 255 : 254);
      }
    });

    it("GUARD-05 POD-12: a virtual address leads to the client pod itself, which sees the bridge's address", async () => {
      const { attacker, bridge, wired } = on;
      const reachItself = async (): Promise<void> => {
        const results = await reach(prober, flowsTo(attacker.namespace, Object.values(VIRTUAL.self), ["tcp", "udp"]));
        for (const { flow, seenBy, seenSource } of results) {
          assert.equal(seenBy, attacker.namespace);
          assert.equal(seenSource, bridge.addresses[typeof flow.to.address === "number" ? 4 : 6]);
        }
      };
      await reachItself();
      // By ARP the pod finds the bridge's MAC address: its frames take the bridge, where br_netfilter has to ask for the
      // pod's address.
      flushNeighbours(attacker.namespace, "eth0");
      flushNeighbours(wired.node, "cni0");
      await reachItself();
    });

    it("GUARD-05: datagrams in fragments reach a pod and virtual addresses", async () => {
      const { attacker, victim } = on;
      const port = PORT + 1;
      const poller = new Poller(lab.calls);
      try {
        const large = { 4: new Uint8Array(randomBytes(4000)), 6: new Uint8Array(randomBytes(4000)) };
        const expected = new Set<string>();
        const arrived = new Set<string>();
        for (const family of FAMILIES) {
          for (const { namespace, addresses } of [attacker, victim]) {
            udp.respond(poller, { namespace, address: addresses[family], port }, () => {});
          }
          for (const to of [victim.addresses[family], VIRTUAL.other[family], VIRTUAL.self[family]]) {
            const name = formatAddress(to);
            const socket = ProbeSocket.open(attacker.namespace, family, SocketType.DATAGRAM);
            const onReadable = (): void => {
              for (const next of socket.drain()) {
                if (next.kind === "data" && Buffer.compare(next.data, large[family]) === 0) arrived.add(name);
              }
            };
            poller.watch(socket, { onReadable });
            socket.connect({ address: to, port });
            socket.send(large[family]);
            expected.add(name);
          }
        }
        const end = performance.now() + 5000;
        await poller.runUntil(() => arrived.size === expected.size || performance.now() > end);
        assert.deepEqual(arrived, expected);
      } finally {
        poller.close();
      }
    });

    it("GUARD-05: live TCP and UDP connections to virtual addresses survive each switch of br_netfilter", async function () {
      requireBridgeNetfilter(this);
      const { attacker, victim, wired } = on;
      const port = PORT + 1;
      const allEnds = FAMILIES.flatMap((family) =>
        (["tcp", "udp"] as const).flatMap((protocol) =>
          (["other", "self"] as const).map((kind): FlowEnds => {
            const { namespace: server, addresses } = kind === "other" ? victim : attacker;
            return {
              name: kind,
              protocol,
              client: attacker.namespace,
              clientAddress: attacker.addresses[family],
              to: { address: VIRTUAL[kind][family], port },
              server,
              at: { address: addresses[family], port },
            };
          }),
        ),
      );
      const flows: PushFlow[] = [];
      try {
        for (const ends of allEnds) flows.push(await PushFlow.begin(ends));
        for (const isOn of [true, false, true, false]) {
          setBridgeNetfilter(wired.node, isOn);
          assert.deepEqual(await brokenOf(flows), [], `after the switch to ${isOn}`);
          await reach(
            prober,
            flowsTo(
              attacker.namespace,
              [...Object.values(VIRTUAL.other), ...Object.values(VIRTUAL.self)],
              ["tcp", "udp"],
            ),
          );
        }
      } finally {
        for (const flow of flows) flow.close();
        setBridgeNetfilter(wired.node, bridgeNetfilter);
      }
    });
  });
}
