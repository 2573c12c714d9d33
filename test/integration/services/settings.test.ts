import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { familyOf, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { parseSnmp, parseSnmp6 } from "../../lab/probe/counters.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { UPLINK } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type ManifestEndpoint, nodeManifest, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";
import { until } from "../../support/until.ts";

const EXTERNAL = pairOf("198.51.100.7", "2001:db8:7::7");
const LATER = pairOf("198.51.100.77", "2001:db8:7::77");
const NODE_PORT = 40_080;
const LOCAL = { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" };
const LOOPBACK_PORT = 9999;
/** The number of connections for which five standard deviations around a share of a half are 0.29 to 0.71. */
const CONNECTIONS = 144;

/** Returns the number of ICMP errors of both families that a namespace has received. */
function unreachables(namespace: LabNamespace): number {
  const [v4 = "", v6 = ""] = namespace.inside(() =>
    ["snmp", "snmp6"].map((file) => readFileSync(`/proc/thread-self/net/${file}`, "latin1")),
  );
  return (parseSnmp(v4, "Icmp").get("InDestUnreachs") ?? 0) + (parseSnmp6(v6).get("Icmp6InDestUnreachs") ?? 0);
}

describe("Services under settings of the daemon and of the node", function () {
  this.timeout(300_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("settings", false);
    on.route([CLUSTER_IPS, EXTERNAL, LATER]);
  });

  after(() => on?.[Symbol.dispose]());

  const texts = textsOf(CLUSTER_IPS);
  const tcp = { transports: ["tcp"] } as const;
  const none = (): string => serviceManifest("none", texts, [], LOCAL, NODE_PORT);
  const external = (endpoints: readonly ManifestEndpoint[]): string =>
    serviceManifest("ext", texts, endpoints, { externalIPs: textsOf(EXTERNAL) });
  const ported = (endpoints: readonly ManifestEndpoint[]): string =>
    serviceManifest("port", texts, endpoints, {}, NODE_PORT);
  const senders = () => [on.client.namespace, on.nodes.node1.node, on.nodes.router];

  it("NE-01: with tcpReset TCP is refused by a reset, and all else by ICMP", async () => {
    on.here.restart({ rules: { tcpReset: true } });
    on.here.apply(none());
    const own = on.addressesOf("node1");
    const everywhere = (options: object) =>
      senders().flatMap((from) => [
        ...on.flows(from, CLUSTER_IPS, options),
        ...on.flows(from, own, { port: NODE_PORT, ...options }),
      ]);
    const everyone = senders();
    const before = everyone.map(unreachables);
    await on.refused(everywhere(tcp));
    assert.deepEqual(everyone.map(unreachables), before, "no ICMP error for TCP");
    await on.refused(everywhere({ transports: ["udp"] }));
  });

  it("NE-01 ETP-03 SVC-08: with tcpReset no reset comes from a port without a Service, nor without a local endpoint", async () => {
    on.here.restart({ rules: { tcpReset: true } });
    on.here.apply(none());
    const before = unreachables(on.client.namespace);
    const flows = on.flows(on.client.namespace, CLUSTER_IPS, { port: SERVICE_PORT + 1, ...tcp });
    await on.refused(flows);
    assert.ok(unreachables(on.client.namespace) >= before + flows.length, "by ICMP");
    on.here.apply(serviceManifest("none", texts, on.at(on.far), LOCAL, NODE_PORT));
    await on.silent(
      on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT }),
      ServiceDropReason.NO_LOCAL,
    );
    await on.silent(on.flows(on.client.namespace, CLUSTER_IPS), ServiceDropReason.NO_LOCAL);
    on.here.restart({});
    on.here.apply(none());
    const icmp = unreachables(on.client.namespace);
    await on.refused(on.flows(on.client.namespace, CLUSTER_IPS, tcp));
    assert.ok(unreachables(on.client.namespace) > icmp, "by ICMP again");
  });

  it("SVC-11: an endpoint that does not answer fails its share of the connections, and none is tried elsewhere", async () => {
    const dead = on.here.pod("dead");
    for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) dead.namespace.writeSysctl(key, "0");
    for (const protocol of ["tcp", "udp"] as const) {
      on.here.apply(serviceManifest("half", texts, on.at(on.near, dead)));
      const flows = Array.from({ length: CONNECTIONS / 2 }, () =>
        on.flows(on.client.namespace, CLUSTER_IPS, { transports: [protocol] }),
      ).flat();
      const results = await on.prober.run(flows, { timeoutMilliseconds: 3000 });
      const failed = results.filter(({ reached }) => !reached);
      for (const { why } of failed) assert.match(why, /refused/);
      for (const { reached, seenBy } of results) assert.equal(seenBy, reached ? on.near.namespace : undefined);
      const share = failed.length / results.length;
      assert.ok(share > 0.29 && share < 0.71, `${protocol}: ${failed.length} of ${results.length} failed`);
    }
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
    await until(() => on.here.dropped(ServiceDropReason.LOOPBACK) === before + 3, "three drops are counted");
    await pause(200);
    const received = [...listener.drain()];
    listener.close();
    assert.equal(received.length, links.length);
  });
});

function macOf({ mac }: { readonly mac: MacAddress | undefined }): MacAddress {
  assert.ok(mac !== undefined);
  return mac;
}
