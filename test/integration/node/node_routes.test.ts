import assert from "node:assert/strict";
import { isFeatureActive, openEthtoolSocket, TX_CHECKSUM_OFFLOAD } from "../../../kernel/ethtool.ts";
import { FAMILIES, type Family, formatAddress } from "../../../kernel/ip/address.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { UPLINK } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { flow, ours, type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { hasLongForm } from "../../support/long_form.ts";
import { until } from "../../support/until.ts";

const IS_FULL = hasLongForm("nodes that always use tunnels, too");
const AUTO = { name: "VXLAN where a router is in between", lab: "routes-auto", args: [], tunnels: 1 } as const;
const ALWAYS = {
  name: "VXLAN everywhere",
  lab: "routes-always",
  args: ["--encapsulation=always"],
  tunnels: 2,
} as const;

for (const { name, lab, args, tunnels } of IS_FULL ? [AUTO, ALWAYS] : [AUTO]) {
  describe(`pods of three nodes: ${name}`, function () {
    this.timeout(300_000);
    let on: RouteLab;

    before(async function () {
      requireKernel(this);
      on = new RouteLab(lab, { args });
      await on.start();
    });
    after(() => on?.[Symbol.dispose]());

    it("POD-03 POD-21: pods reach the pods of all nodes and are seen with their own addresses, in both families", async () => {
      for (const { flow: probe, seenSource } of await on.untilPodsReachPods()) {
        const from = on.nodes.find(({ pod }) => pod === probe.from);
        const family = typeof probe.to.address === "number" ? 4 : 6;
        assert.equal(seenSource, from?.podAddresses[family]);
      }
      const encapsulated = on.nodes[0].wired.node.exec("bridge", ["fdb", "show", "dev", TUNNEL.name]);
      assert.equal(encapsulated.trim().split("\n").length, tunnels, encapsulated);
    });

    it("POD-04: nodes reach pods of other nodes and pods reach other nodes, and both are seen with their own addresses", async () => {
      const pairs = on.nodes.flatMap((from) => on.nodes.filter((to) => to !== from).map((to) => [from, to] as const));
      for (const family of FAMILIES) {
        const toPods = await on.untilReached(pairs.map(([from, to]) => flow(from.wired.node, to.podAddresses[family])));
        const toNodes = await on.untilReached(pairs.map(([from, to]) => flow(from.pod, to.addresses[family])));
        for (const [index, [from]] of pairs.entries()) {
          assert.equal(toPods[index]?.seenSource, from.addresses[family]);
          assert.equal(toNodes[index]?.seenSource, from.podAddresses[family]);
        }
      }
    });

    it("POD-21 D10: packets as large as a pod's MTU get through to a node on the same link and to one behind a router", async () => {
      const [near, next, far] = on.nodes;
      await on.exchange(near, next);
      await on.exchange(near, far);
      await on.exchange(far, near);
    });

    it("D10: a datagram as large as a pod's MTU causes no fragment and no ICMP error in any pod, node or router", async () => {
      const [near, next, far] = on.nodes;
      const all = [on.router, ...on.nodes.flatMap(({ wired, pod }) => [wired.node, pod])];
      for (const [from, to] of [
        [near, next],
        [near, far],
        [far, next],
      ] as const) {
        for (const family of FAMILIES) {
          const largest = 1450 - (family === 4 ? 20 : 40) - 8;
          const before = all.map(packetTroubles);
          await sendDatagram(from, to, family, largest);
          assert.deepEqual(all.map(packetTroubles), before, `IPv${family} from ${from.name} to ${to.name}`);
          // The first is larger than a pod's MTU, the second is also larger than the uplink's.
          for (const more of [30, 100]) await sendDatagram(from, to, family, largest + more);
          assert.notEqual(packetTroubles(from.pod), before[all.indexOf(from.pod)], "a larger datagram is fragmented");
        }
      }
    });

    it("D8: no node asks for a MAC address in the tunnel", () => {
      for (const { wired } of on.nodes) {
        const found = wired.node.exec("ip", ["neighbour", "show", "dev", TUNNEL.name, "nud", "all"]).trim().split("\n");
        const asked = found.filter((line) => !/PERMANENT|NOARP/.test(line));
        assert.deepEqual(asked, []);
      }
    });

    it("POD-21: the tunnel's checksum offload is off", () => {
      const { node } = on.nodes[0].wired;
      const ethtool = node.inside(() => openEthtoolSocket(node.calls));
      try {
        assert.equal(isFeatureActive(ethtool, node.link(TUNNEL.name).index, TX_CHECKSUM_OFFLOAD), false);
      } finally {
        ethtool.socket.close();
      }
    });

    it("D10: the tunnel's MTU follows that of the device below it", async () => {
      const { node } = on.nodes[0].wired;
      const mtu = (): number => node.link(TUNNEL.name).mtu;
      assert.equal(mtu(), 1450);
      node.exec("ip", ["link", "set", UPLINK, "mtu", "1400"]);
      await until(
        () => mtu() === 1350,
        () => `MTU ${mtu()}`,
      );
      node.exec("ip", ["link", "set", UPLINK, "mtu", "1500"]);
      await until(
        () => mtu() === 1450,
        () => `MTU ${mtu()}`,
      );
    });

    it("STATE-01: the daemon restores each part of its routes and tunnel that another program removes, and packets flow again", async () => {
      const [{ wired }, , far] = on.nodes;
      const { node } = wired;
      const good = ours(node);
      const harm = {
        "a route": "ip route delete 10.244.3.0/24",
        "a route of IPv6": "ip -6 route delete fd00:244:3::/64",
        "a rule": "ip rule delete pref 107",
        "a neighbour": `ip neighbour delete ${formatAddress(far.addresses[4])} dev ${TUNNEL.name}`,
        "the forwarding": `bridge fdb delete ${fdbMac(node.exec("bridge", ["fdb", "show", "dev", TUNNEL.name]))} dev ${TUNNEL.name} dst ${formatAddress(far.addresses[4])} self`,
        "its address": `ip -6 address flush dev ${TUNNEL.name}`,
        "its state": `ip link set ${TUNNEL.name} down`,
        "the device": `ip link delete ${TUNNEL.name}`,
      };
      for (const [what, command] of Object.entries(harm)) {
        const [file = "", ...rest] = command.split(" ");
        node.exec(file, rest);
        await until(
          () => ours(node) === good,
          () => `${what}: ${ours(node)}\nexpected\n${good}`,
        );
      }
      await on.untilPodsReachPods();

      function fdbMac(text: string): string {
        const line = text.split("\n").find((one) => one.includes(formatAddress(far.addresses[4])));
        return line?.split(" ")[0] ?? assert.fail(text);
      }
    });
  });
}

/** Sends one datagram between pods, with "do not fragment" in IPv4 as Linux has it by default, and waits for it. */
async function sendDatagram(from: RoutedNode, to: RoutedNode, family: Family, bytes: number): Promise<void> {
  const at = { address: to.podAddresses[family], port: 9200 };
  const [receiver, sender] = [to.pod, from.pod].map((pod) => ProbeSocket.open(pod, family, SocketType.DATAGRAM));
  assert.ok(receiver !== undefined && sender !== undefined);
  try {
    receiver.bind(at);
    assert.equal(sender.sendTo(new Uint8Array(bytes), at), bytes);
    const hasCome = (): boolean => {
      const next = receiver.receive();
      return next.kind === "data" && next.data.length === bytes;
    };
    await until(hasCome, () => `${bytes} bytes from ${from.name} to ${to.name} have not come`);
  } finally {
    receiver.close();
    sender.close();
  }
}

/** Returns what a namespace has counted of fragments and of packets that were too large. */
function packetTroubles(namespace: LabNamespace): string {
  const text = namespace.exec("nstat", ["--zeros", "--json", "--noupdate", "--reset"]);
  return [
    ...text.matchAll(/"(?:Ip6?(?:Frag|Reasm)\w+|Icmp(?:Out|In)DestUnreachs|Icmp6(?:Out|In)PktTooBigs)":\d+/g),
  ].join();
}
