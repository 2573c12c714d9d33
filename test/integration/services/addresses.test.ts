import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { UPLINK } from "../../lab/topology.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/daemon/recording_sink.ts";
import { type ManifestEndpoint, nodeManifest, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const EXTERNAL = pairOf("198.51.100.7", "2001:db8:7::7");
const LATER = pairOf("198.51.100.77", "2001:db8:7::77");
const NODE_PORT = 40_080;
/** A node port at which the test also listens on the node. */
const OTHER_NODE_PORT = 40_081;
const LOCAL = { externalTrafficPolicy: "Local" };
const LOOPBACK_PORT = 9999;

for (const bridgeNetfilter of [true, false]) {
  describe(`external IPs and node ports in packets, br_netfilter ${bridgeNetfilter ? "on" : "off"}`, function () {
    this.timeout(60_000);
    let on: TrafficLab;

    before(function () {
      requireKernel(this);
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      on = new TrafficLab("addresses", bridgeNetfilter);
      on.route([CLUSTER_IPS, EXTERNAL, LATER]);
    });

    after(() => on?.[Symbol.dispose]());

    const external = (endpoints: readonly ManifestEndpoint[], spec: Readonly<Record<string, unknown>> = {}): string =>
      serviceManifest("ext", textsOf(CLUSTER_IPS), endpoints, { externalIPs: textsOf(EXTERNAL), ...spec });
    const ported = (endpoints: readonly ManifestEndpoint[]): string =>
      serviceManifest("port", textsOf(CLUSTER_IPS), endpoints, {}, NODE_PORT);
    const senders = () => [on.client.namespace, on.nodes.node1.node, on.nodes.router];

    it("XIP-01 XIP-02 XIP-03: on every node an external IP leads all clients to the endpoints, which see the node's address", async () => {
      for (const [pod, source] of [
        [on.near, on.gatewaysOf("node1")],
        [on.far, on.addressesOf("node1")],
      ] as const) {
        on.here.apply(external(on.at(pod)));
        for (const from of senders()) await on.reach(on.flows(from, EXTERNAL), [pod], source);
      }
      on.there.apply(external(on.at(on.near)));
      for (const from of [on.far.namespace, on.nodes.node2.node]) {
        await on.reach(on.flows(from, EXTERNAL), [on.near], on.addressesOf("node2"));
      }
      on.there.apply("");
    });

    it("SVC-14: near and far endpoints see the bridge's address when the node calls from it", async () => {
      const bridge = on.gatewaysOf("node1");
      for (const pod of [on.near, on.far]) {
        on.here.apply(external(on.at(pod)));
        const flows = [CLUSTER_IPS, EXTERNAL].map((to) =>
          on.flows(on.nodes.node1.node, to).map((flow) => ({ ...flow, source: bridge[familyOf(flow.to.address)] })),
        );
        await on.reach(flows[0] ?? [], [pod], bridge);
        // By all other ways the node is masqueraded as every client is (XIP-02).
        await on.reach(flows[1] ?? [], [pod], pod === on.near ? bridge : on.addressesOf("node1"));
      }
    });

    it("XIP-03: when the configuration refuses external IPs, they lead nowhere, and cluster IPs still work", async () => {
      on.here.apply(external(on.at(on.near)));
      on.here.restart({ refuseExternalIps: true });
      await on.fail(senders().flatMap((from) => on.flows(from, EXTERNAL)));
      await on.reach(on.flows(on.client.namespace, CLUSTER_IPS), [on.near]);
      on.here.restart({});
      await on.reach(on.flows(on.client.namespace, EXTERNAL), [on.near]);
    });

    it("XIP-06 LB-15 LB-16: with policy Local an external IP behaves like a balancer's address", async () => {
      const [pod, node, router] = senders();
      assert.ok(pod && node && router);
      on.here.apply(external(on.at(on.near, on.far), LOCAL));
      await on.reach(on.flows(router, EXTERNAL), [on.near], on.outside);
      on.here.apply(external(on.at(on.far), LOCAL));
      await on.silent(on.flows(router, EXTERNAL), ServiceDropReason.NO_LOCAL);
      await on.reach(on.flows(pod, EXTERNAL), [on.far], on.client.addresses);
      await on.reach(on.flows(node, EXTERNAL), [on.far], on.addressesOf("node1"));
      on.here.apply(external([], LOCAL));
      await on.refused([router, node, pod].flatMap((from) => on.flows(from, EXTERNAL)));
    });

    it("XIP-07: an external IP of a family that the Service does not have leads nowhere", async () => {
      for (const family of [4, 6] as const) {
        const single = [formatAddress(CLUSTER_IPS[family])];
        on.here.apply(serviceManifest("ext", single, on.at(on.near), { externalIPs: textsOf(EXTERNAL) }));
        const flows = on.flows(on.client.namespace, EXTERNAL);
        const isServed = ({ to }: (typeof flows)[number]): boolean => to.address === EXTERNAL[family];
        await on.reach(flows.filter(isServed), [on.near]);
        await on.fail(flows.filter((flow) => !isServed(flow)));
      }
    });

    it("XIP-05 NODE-08: nothing of ours listens on the node, and other programs' listeners there change nothing", async () => {
      const own = on.addressesOf("node1");
      const { node } = on.nodes.node1;
      assert.equal(node.exec("ss", ["-Hltun"]), "");
      for (const family of [4, 6] as const) {
        for (const protocol of ["tcp", "udp"] as const) {
          for (const port of [SERVICE_PORT, OTHER_NODE_PORT]) {
            on.prober.listen(protocol, { namespace: node, address: own[family], port });
          }
        }
      }
      const listening = node.exec("ss", ["-Hltun"]);
      const transports = ["tcp", "udp"] as const;
      const flows = senders().flatMap((from) =>
        [SERVICE_PORT, OTHER_NODE_PORT].flatMap((port) => on.flows(from, own, { port, transports })),
      );
      on.here.apply(
        serviceManifest("port", textsOf(CLUSTER_IPS), on.at(on.near), { externalIPs: textsOf(own) }, OTHER_NODE_PORT),
      );
      await on.reach(flows, [on.near]);
      assert.equal(node.exec("ss", ["-Hltun"]), listening);
      // The listeners could answer all the time.
      on.here.apply("");
      await on.reach(flows, [{ namespace: node }]);
    });

    it("NODE-04: only the configured addresses serve node ports, and one that appears later serves them at once", async () => {
      const { node } = on.nodes.node1;
      on.here.apply(ported(on.at(on.near)));
      const cidrs = ["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"];
      on.here.restart({ nodePortAddresses: cidrs.map((text) => parseCidr(text)) });
      const to = (address: typeof LATER) => senders().flatMap((from) => on.flows(from, address, { port: NODE_PORT }));
      await on.reach(to(on.addressesOf("node1")), [on.near]);
      await on.fail([
        ...[on.client.namespace, node].flatMap((from) => on.flows(from, on.gatewaysOf("node1"), { port: NODE_PORT })),
        ...on.flows(on.client.namespace, LATER, { port: NODE_PORT }),
      ]);
      for (const text of textsOf(LATER)) {
        node.exec("ip", ["address", "add", text, "dev", "lo", "nodad"]);
        // The kernel makes the local route of an IPv6 address in a worker (addrconf_dad_work), after the command's end.
        await until(() => node.exec("ip", ["route", "get", text]).startsWith("local "), `a route to ${text}`);
      }
      await on.reach(to(LATER), [on.near]);
    });

    it("NODE-04: primary means the first address of the Node object, also after it changes", async () => {
      const [own, routed] = [on.addressesOf("node1"), on.flows(on.nodes.router, LATER, { port: NODE_PORT })];
      const ownRouted = on.flows(on.nodes.router, own, { port: NODE_PORT });
      on.here.restart({ nodePortAddresses: ["primary"] });
      on.here.apply(nodeManifest("node1", textsOf(own)) + ported(on.at(on.near)));
      await on.reach(ownRouted, [on.near]);
      await on.fail(routed);
      on.here.apply(nodeManifest("node1", textsOf(LATER)) + ported(on.at(on.near)));
      await on.reach(routed, [on.near]);
      await on.fail(ownRouted);
      on.here.restart({});
    });

    it("NODE-05: 127.0.0.0/8 from a link is dropped whatever the kernel's settings are, and serves no node ports", async () => {
      const { node } = on.nodes.node1;
      on.here.apply(ported(on.at(on.near)));
      const localhost = pairOf("127.0.0.1", "::1");
      await on.fail(on.flows(node, localhost, { port: NODE_PORT }));
      for (const device of ["all", "default", UPLINK, "cni0"]) {
        assert.equal(node.readSysctl(`net/ipv4/conf/${device}/route_localnet`), "0", device);
      }
      // Another program on the node may set these.
      for (const key of ["route_localnet", "rp_filter"]) {
        for (const device of ["all", UPLINK, "cni0"]) {
          node.writeSysctl(`net/ipv4/conf/${device}/${key}`, key === "route_localnet" ? "1" : "0");
        }
      }
      const listener = ProbeSocket.open(node, 4, SocketType.DATAGRAM);
      assert.equal(listener.bindOwn(4, LOOPBACK_PORT), 0);
      const before = on.here.dropped(ServiceDropReason.LOOPBACK);
      const own = on.addressesOf("node1")[4];
      const links = [
        { namespace: on.nodes.router, link: "to-node1", via: UPLINK, source: on.outside[4] },
        { namespace: on.client.namespace, link: "eth0", via: "cni0", source: on.client.addresses[4] },
      ];
      for (const { namespace, link, via, source } of links) {
        using socket = new FrameSocket(namespace, link);
        const [to, from] = [macOf(node.link(via)), macOf(namespace.link(link))];
        const send = (saddr: typeof own, daddr: typeof own): void => {
          const packet = encodeIp(encodeUdp(saddr, daddr, LOOPBACK_PORT, Uint8Array.of(1, 2, 3)));
          socket.send(encodeFrame({ to, from, ...packet }));
        };
        send(source, parseAddress("127.0.0.1"));
        // A pod's frame with such a source is dropped before, by the guard of its port.
        if (via === UPLINK) send(parseAddress("127.0.0.5"), own);
        // This one takes the same way and arrives, so that the silence of the others means something.
        send(source, own);
      }
      for (let left = 500; on.here.dropped(ServiceDropReason.LOOPBACK) < before + 3 && left > 0; left--)
        await pause(10);
      assert.equal(on.here.dropped(ServiceDropReason.LOOPBACK), before + 3);
      await pause(200);
      const received = [...listener.drain()];
      listener.close();
      assert.equal(received.length, links.length);
    });
  });
}

function macOf({ mac }: { readonly mac: MacAddress | undefined }): MacAddress {
  assert.ok(mac !== undefined);
  return mac;
}
