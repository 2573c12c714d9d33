import assert from "node:assert/strict";
import { type Address, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { type MacAddress, parseMac } from "../../../kernel/ip/mac.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import type { Token } from "../../lab/probe/protocol.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { connect, UPLINK } from "../../lab/topology.ts";
import { eventually, type GuardedNode } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";
import { namedLab, type NamedPods, namedPods } from "../../support/policy/lab/named_lab.ts";
import { NODE_NAMES, type NodeName } from "../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { droppedPackets } from "../../support/nftables/dropped_packets.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 9109;
/** The link of a container of another program, such as one on Docker's bridge. */
const OTHER_LINK = "other1";
const CONTAINER = { 4: parseAddress("172.17.0.2"), 6: parseAddress("fd00:17::2") } as const;
const CONTAINER_GATEWAY = { 4: parseAddress("172.17.0.1"), 6: parseAddress("fd00:17::1") } as const;

/** A sender that is not on the pods' bridge: its socket, its own addresses, and the node's MAC address on its link. */
interface Stranger {
  readonly link: FrameSocket;
  readonly mac: MacAddress;
  readonly gatewayMac: MacAddress;
  readonly addresses: Readonly<Record<4 | 6, Address>>;
}

for (const way of OPPOSITE_WAYS) {
  describe(`attacks by strangers with the address of a pod, ${way.title}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;
    let strangers: Readonly<Record<"a neighbour" | "another bridge's container", Stranger>>;

    useGuardedNode("pod-address", way, (made, lab) => {
      on = made;
      const { node } = on.wired;
      const container = lab.namespace("container");
      const macs = { own: parseMac("02:00:00:00:17:02"), node: parseMac("02:00:00:00:17:01") };
      const prefixed = (addresses: Readonly<Record<4 | 6, Address>>) =>
        FAMILIES.map((family) => ({ address: addresses[family], prefixLength: family === 4 ? 24 : 64 }));
      connect(
        { namespace: node, link: OTHER_LINK, mac: macs.node, addresses: prefixed(CONTAINER_GATEWAY) },
        { namespace: container, link: "eth0", mac: macs.own, addresses: prefixed(CONTAINER) },
      );
      // Strict reverse path filtering would drop what claims an IPv4 address; many nodes have it off or loose.
      for (const name of ["all", UPLINK, OTHER_LINK]) node.writeSysctl(`net/ipv4/conf/${name}/rp_filter`, "0");
      const macOf = (at: typeof node | typeof on.nodes.router, name: string): MacAddress => {
        const { mac } = at.link(name);
        assert.ok(mac !== undefined);
        return mac;
      };
      const { router } = on.nodes;
      const [v4, v6] = on.wired.routerAddresses;
      strangers = {
        "a neighbour": {
          link: new FrameSocket(router, "to-node1"),
          mac: macOf(router, "to-node1"),
          gatewayMac: macOf(node, UPLINK),
          addresses: { 4: v4, 6: v6 },
        },
        "another bridge's container": {
          link: new FrameSocket(container, "eth0"),
          mac: macs.own,
          gatewayMac: macs.node,
          addresses: CONTAINER,
        },
      };
    });

    after(() => {
      for (const { link } of Object.values(strangers ?? {})) link.close();
    });

    for (const who of ["a neighbour", "another bridge's container"] as const) {
      // The kernel itself drops such packets of IPv4.
      it(`GUARD-20: a packet of ${who} with an address of the node reaches no pod by IPv6, and the node itself hears it`, async () => {
        const { third, wired } = on;
        const { link, mac, gatewayMac } = strangers[who];
        const own = [wired.gateways[1], wired.addresses[1]];
        const send = (from: Address, to: Address): Token => {
          const token = newToken();
          link.send(encodeFrame({ from: mac, to: gatewayMac, ...encodeIp(encodeUdp(from, to, PORT, token)) }));
          return token;
        };
        on.unload();
        for (const from of own) assert.ok(await on.arrives(send(from, third.addresses[6]), third), "without the rules");
        on.load();
        const forged = own.map((from) => send(from, third.addresses[6]));
        assert.ok(await eventually(() => on.dropped(DropReason.OWN) === own.length), "with them it is counted");
        const frames = third.link.received();
        assert.ok(!forged.some((token) => frames.some((frame) => carries(frame, token))));
        const socket = ProbeSocket.open(wired.node, 6, SocketType.DATAGRAM);
        socket.bind({ address: wired.addresses[1], port: PORT });
        const heard = send(wired.gateways[1], wired.addresses[1]);
        assert.ok(
          await eventually(() => [...socket.drain()].some((one) => one.kind === "data" && carries(one.data, heard))),
        );
        socket.close();
        on.unload();
      });

      for (const family of FAMILIES) {
        it(`GUARD-16: a packet of ${who} with the address of a pod reaches no pod, IPv${family}`, async () => {
          const { victim, third } = on;
          const { link, mac, gatewayMac, addresses } = strangers[who];
          const send = (from: Address): Token => {
            const token = newToken();
            const packet = encodeUdp(from, third.addresses[family], PORT, token);
            link.send(encodeFrame({ from: mac, to: gatewayMac, ...encodeIp(packet) }));
            return token;
          };
          on.unload();
          assert.ok(await on.arrives(send(victim.addresses[family]), third), "without the rules it arrives");
          on.load();
          const forged = send(victim.addresses[family]);
          assert.ok(await eventually(() => on.dropped(DropReason.ELSEWHERE) === 1), "with them it is counted");
          assert.ok(!third.link.received().some((frame) => carries(frame, forged)));
          assert.ok(await on.arrives(send(addresses[family]), third), "with its own address it arrives");
          on.unload();
        });
      }
    }
  });
}

const PODS: NamedPods = { "x/a": { node: "node1" }, "y/a": { node: "node1" }, "x/b": { node: "node2" } };
const ONLY_X = networkPolicy("y", {
  podSelector: {},
  policyTypes: ["Ingress"],
  ingress: [{ from: [{ namespaceSelector: labelled({ project: "x" }) }] }],
});

describe("policies and strangers with the address of a pod", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("pod-address", PODS, [80]);
    for (const name of NODE_NAMES) {
      for (const link of ["all", UPLINK]) lab.wired(name).node.writeSysctl(`net/ipv4/conf/${link}/rp_filter`, "0");
    }
  });
  after(() => lab?.close());

  const dropped = (name: NodeName): number => {
    const rules = lab.wired(name).node.exec("nft", ["list", "chain", "inet", "drawbridge", "before_reassembly"]);
    return droppedPackets(rules, DropReason.ELSEWHERE);
  };

  for (const family of FAMILIES) {
    it(`GUARD-16: a policy that admits a pod admits no neighbour with that pod's address, not even in the pod's flow, IPv${family}`, async () => {
      await lab.apply([...namedPods(lab, PODS), ONLY_X]);
      const [from, to] = [lab.place("x/a"), lab.place("y/a")];
      const own = ProbeSocket.open(from.namespace, family, SocketType.DATAGRAM);
      own.bind({ address: from.addresses[family], port: PORT });
      const [link, uplink] = [new FrameSocket(to.namespace, "eth0"), new FrameSocket(lab.nodes.router, "to-node1")];
      try {
        const honest = newToken();
        own.sendTo(honest, { address: to.addresses[family], port: PORT });
        assert.ok(await eventually(() => link.received().some((frame) => carries(frame, honest))), "the pod's arrives");
        const mac = (of: string): MacAddress => parseMac(/ether (\S+)/.exec(of)?.[1] ?? "");
        const macs = {
          from: mac(lab.nodes.router.exec("ip", ["link", "show", "to-node1"])),
          to: mac(lab.wired("node1").node.exec("ip", ["link", "show", UPLINK])),
        };
        const before = dropped("node1");
        const [inFlow, fresh] = [newToken(), newToken()];
        for (const [token, port] of [[inFlow, PORT] as const, [fresh, PORT + 1] as const]) {
          const packet = encodeUdp(from.addresses[family], to.addresses[family], port, token);
          uplink.send(encodeFrame({ ...macs, ...encodeIp(packet) }));
        }
        assert.ok(await eventually(() => dropped("node1") === before + 2), "both are counted");
        assert.ok(!link.received().some((frame) => carries(frame, inFlow) || carries(frame, fresh)));
      } finally {
        for (const socket of [own, link, uplink]) socket.close();
      }
    });
  }
});
