import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { type Address, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type ClusterPod, pairFrom, SmallCluster } from "../../support/on_top/cluster.ts";
import { DnsServer } from "../../support/on_top/dns_server.ts";
import { ask, lookUp } from "../../support/on_top/resolver.ts";
import { type ClusterService, objectsOf, zoneOf } from "../../support/on_top/services.ts";
import type { KubernetesObject } from "../../support/services/manifest.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { pairOf, textsOf } from "../../support/services/traffic_lab.ts";
import { roundsFor } from "../../support/long_form.ts";
import { until } from "../../support/until.ts";

const DNS_IPS = pairOf("10.96.0.10", "fd00:96::a");
const WEB_IPS = pairOf("10.96.0.20", "fd00:96::14");
const DNS_PORTS = [
  { name: "dns", protocol: "UDP", port: 53, targetPort: 53 },
  { name: "dns-tcp", protocol: "TCP", port: 53, targetPort: 53 },
] as const;
const HTTP = { name: "http", protocol: "TCP", port: 80, targetPort: 8080 } as const;
/** Endpoints of a headless Service. Their addresses do not fit into a datagram without EDNS. */
const MANY = Array.from({ length: 60 }, (_, i) => ({
  name: `many-${i}`,
  nodeName: "node2",
  addresses: pairOf(`10.244.2.${100 + i}`, `fd00:244:2::${(100 + i).toString(16)}`),
}));
const [SERVER_V4, SERVER_V6] = [formatAddress(DNS_IPS[4]), formatAddress(DNS_IPS[6])];
const ROUNDS = roundsFor("rounds", 1, 10);

/** Returns the name that a node asks for over a family. */
function probeName(node: string, family: 4 | 6): string {
  return `from-${node}-${family}.cluster.local`;
}

describe("a DNS server at a cluster IP", function () {
  this.timeout(300_000);
  let cluster: SmallCluster;
  let first: DnsServer;
  let second: DnsServer;
  let resolver: DnsServer;
  let pods: Readonly<Record<"dns1" | "dns2" | "client" | "far" | "web" | "db0" | "db1", ClusterPod>>;

  const dns = (endpoints: readonly ClusterPod[]): ClusterService => ({
    namespace: "kube-system",
    name: "kube-dns",
    clusterIps: DNS_IPS,
    ports: DNS_PORTS,
    endpoints,
  });

  before(async function () {
    requireKernel(this);
    requireProgram(this, "dnsmasq");
    cluster = await SmallCluster.start("on-top-dns", ["kube-system", "shop"]);
    const { prober } = cluster;
    pods = {
      dns1: await cluster.pod("kube-system", "dns1", "node1", { labels: { app: "kube-dns" } }),
      dns2: await cluster.pod("kube-system", "dns2", "node2", { labels: { app: "kube-dns" } }),
      client: await cluster.pod("shop", "client", "node1"),
      far: await cluster.pod("shop", "far", "node2"),
      web: await cluster.pod("shop", "web", "node2"),
      db0: await cluster.pod("shop", "db-0", "node1", { labels: { app: "db" } }),
      db1: await cluster.pod("shop", "db-1", "node2", { labels: { app: "db" } }),
    };
    for (const { namespace, addresses } of [pods.web, pods.db0, pods.db1]) {
      for (const family of FAMILIES) prober.listen("tcp", { namespace, address: addresses[family], port: 8080 });
    }
    const shop = { namespace: "shop", ports: [HTTP] };
    const services: readonly ClusterService[] = [
      dns([pods.dns1, pods.dns2]),
      { ...shop, name: "web", clusterIps: WEB_IPS, endpoints: [pods.web] },
      { ...shop, name: "db", clusterIps: undefined, endpoints: [pods.db0, pods.db1] },
      { ...shop, name: "many", clusterIps: undefined, endpoints: MANY },
    ];
    cluster.put(...services.flatMap(objectsOf));
    const zone = zoneOf(services);
    const probes = (["node1", "node2"] as const).flatMap((node) => FAMILIES.map((family) => probeName(node, family)));
    const hosts = probes.flatMap((name) => FAMILIES.map((family) => [WEB_IPS[family], name] as const));
    const { lab, stranger } = cluster;
    const forwarders = {
      "v4.example": formatAddress(stranger.addresses[4]),
      "v6.example": formatAddress(stranger.addresses[6]),
    };
    const serve = ({ namespace }: ClusterPod): DnsServer =>
      new DnsServer(lab, namespace, { ...zone, hosts: [...zone.hosts, ...hosts] }, forwarders);
    [first, second] = [serve(pods.dns1), serve(pods.dns2)];
    const outside = ["www.v4.example", "www.v6.example"].map((name) => [parseAddress("203.0.113.80"), name] as const);
    resolver = new DnsServer(lab, stranger.namespace, { hosts: outside, services: [] });
    await Promise.all([first, second, resolver].map((server) => server.start()));
    await cluster.inForce();
  });

  after(async () => {
    await Promise.all([first, second, resolver].map((server) => server?.stop()));
    cluster?.close();
  });

  /** Returns the namespaces of a pod on each node, and of the nodes themselves. */
  const clients = () => [pods.client.namespace, pods.far.namespace, cluster.nodes.node1.node, cluster.nodes.node2.node];

  it("DNS-01 DNS-07: the C library finds a Service by its short and long names, by UDP and TCP, in both families", () => {
    for (const [{ namespace }, server] of [
      [pods.client, SERVER_V4],
      [pods.far, SERVER_V6],
    ] as const) {
      const find = (name: string, options = "") =>
        lookUp(cluster.lab, namespace, name, { server, namespace: "shop", options });
      for (const name of [
        "web",
        "web.shop",
        "web.shop.svc",
        "web.shop.svc.cluster.local",
        "web.shop.svc.cluster.local.",
      ]) {
        assert.deepEqual(find(name), textsOf(WEB_IPS), `${name} by ${server}`);
      }
      assert.deepEqual(find("web", "use-vc"), textsOf(WEB_IPS), `by TCP, ${server}`);
      assert.deepEqual(find("kube-dns"), [], "it is in another namespace");
      assert.deepEqual(find("kube-dns.kube-system"), textsOf(DNS_IPS));
      // The C library asks again by TCP for an answer that was truncated.
      assert.equal(find("many").length, 2 * MANY.length);
    }
  });

  it("DNS-02 DNS-03: Node's resolver finds a Service's ports, a headless Service's pods and the names of addresses", () => {
    const questions = [
      { type: "SRV", name: "_http._tcp.web.shop.svc.cluster.local" },
      { type: "SRV", name: "_http._tcp.db.shop.svc.cluster.local" },
      { type: "A", name: "db.shop.svc.cluster.local" },
      { type: "AAAA", name: "db.shop.svc.cluster.local" },
      { type: "A", name: "db-1.db.shop.svc.cluster.local" },
      { type: "PTR", name: formatAddress(WEB_IPS[4]) },
      { type: "PTR", name: formatAddress(WEB_IPS[6]) },
      { type: "A", name: "nothing.shop.svc.cluster.local" },
      { type: "A", name: "many.shop.svc.cluster.local" },
    ] as const;
    const both = (family: 4 | 6) => [pods.db0, pods.db1].map((pod) => formatAddress(pod.addresses[family])).toSorted();
    const expected = [
      ["web.shop.svc.cluster.local:80"],
      ["db-0.db.shop.svc.cluster.local:8080", "db-1.db.shop.svc.cluster.local:8080"],
      both(4),
      both(6),
      [formatAddress(pods.db1.addresses[4])],
      ["web.shop.svc.cluster.local"],
      ["web.shop.svc.cluster.local"],
      "ENOTFOUND",
      MANY.map(({ addresses }) => formatAddress(addresses[4])).toSorted(),
    ];
    assert.deepEqual(ask(pods.far.namespace, SERVER_V4, questions), expected);
    assert.deepEqual(ask(cluster.nodes.node1.node, SERVER_V6, questions), expected);
  });

  /** Looks a name up again and again, each time from a new port. @returns the servers that did not answer a query */
  const unanswered = (from: LabNamespace, times: number): readonly string[] =>
    [SERVER_V4, SERVER_V6].flatMap((server) =>
      Array.from({ length: times }, () =>
        lookUp(cluster.lab, from, "web.shop.svc.cluster.local.", { server, namespace: "shop" }),
      ).flatMap((found) => (isDeepStrictEqual(found, textsOf(WEB_IPS)) ? [] : [`${server}: ${found.join(" ")}`])),
    );

  it("DNS-07: a client that asks for both families back to back from one port loses no query", () => {
    for (const from of clients()) assert.deepEqual(unanswered(from, 25), [], from.name);
  });

  it("DNS-09: a node's own queries reach the server from the address that the node has towards it", () => {
    for (const [node, other] of [
      ["node1", "node2"],
      ["node2", "node1"],
    ] as const) {
      for (const family of FAMILIES) {
        const name = probeName(node, family);
        const from = cluster.nodes[node];
        const near = node === "node1" ? first : second;
        const far = node === "node1" ? second : first;
        const server = formatAddress(DNS_IPS[family]);
        // The chance that forty look-ups miss one of two servers is one in a million million.
        for (let i = 0; i < 40; i++) lookUp(cluster.lab, from.node, `${name}.`, { server, namespace: "shop" });
        assert.deepEqual(near.sourcesOf(name), [formatAddress(pairFrom(from.gateways)[family])], `${node}'s own pod`);
        assert.deepEqual(far.sourcesOf(name), [formatAddress(pairFrom(from.addresses)[family])], `${other}'s pod`);
      }
    }
  });

  it("DNS-11: the server forwards other names to a resolver outside, which sees the node's address instead of the pod's", () => {
    const { node1, node2 } = cluster.nodes;
    for (const [server, family] of [
      [SERVER_V4, 6],
      [SERVER_V6, 4],
    ] as const) {
      const name = `www.v${family}.example`;
      const nodes = [node1, node2].map(({ addresses }) => formatAddress(pairFrom(addresses)[family])).toSorted();
      // The chance that forty questions miss one of two servers is one in a million million.
      for (let left = 40; left > 0 && resolver.sourcesOf(name).length < 2; left--) {
        const found = lookUp(cluster.lab, pods.client.namespace, name, { server, namespace: "shop" });
        assert.deepEqual(found, ["203.0.113.80"], `${name} by ${server}`);
      }
      assert.deepEqual(resolver.sourcesOf(name).toSorted(), nodes);
    }
  });

  it("HL-02: a client connects to the pods that a headless Service's name gives, and they see the client's own address", async () => {
    const found = lookUp(cluster.lab, pods.client.namespace, "db", { server: SERVER_V4, namespace: "shop" });
    assert.equal(found.length, 4);
    const flows = found.map((address) => flowTo(pods.client, parseAddress(address)));
    for (const { flow, seenAt, seenSource, why } of await cluster.prober.run(flows, { timeoutMilliseconds: 5000 })) {
      const family = typeof flow.to.address === "number" ? 4 : 6;
      assert.equal(why, "");
      assert.equal(seenAt?.address, flow.to.address);
      assert.equal(seenSource, pods.client.addresses[family]);
    }
    for (const pod of [pods.db0, pods.db1]) {
      for (const family of FAMILIES) assert.ok(!cluster.isEndpoint("node1", pod.addresses[family], 8080));
    }
  });

  function flowTo({ namespace }: ClusterPod, address: Address) {
    return { protocol: "tcp", from: namespace, to: { address, port: 8080 } } as const;
  }

  it("HL-05: policies hold for connections to a headless Service's pods", async () => {
    const addresses = [pods.db0, pods.db1].flatMap((pod) => FAMILIES.map((family) => pod.addresses[family]));
    const reached = async (from: ClusterPod) => {
      const flows = addresses.map((address) => flowTo(from, address));
      return (await cluster.prober.run(flows, { timeoutMilliseconds: 400 })).map((one) => one.reached);
    };
    const policy = networkPolicy(
      "db",
      { app: "db" },
      {
        policyTypes: ["Ingress"],
        ingress: [{ from: [{ podSelector: { matchLabels: { name: "far" } } }] }],
      },
    );
    cluster.put(policy);
    await until(async () => !(await reached(pods.client)).includes(true), "the client is kept out");
    assert.deepEqual(await reached(pods.far), [true, true, true, true]);
    cluster.remove(policy);
    await until(async () => !(await reached(pods.client)).includes(false), "the client is let in");
  });

  it("DNS-07: a pod that may reach only the DNS server resolves names, with long answers by TCP where TCP is allowed", async () => {
    const toDns = (protocols: readonly string[]): KubernetesObject =>
      networkPolicy(
        "client",
        { name: "client" },
        {
          policyTypes: ["Egress"],
          egress: [
            {
              to: [
                {
                  namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
                  podSelector: { matchLabels: { app: "kube-dns" } },
                },
              ],
              ports: protocols.map((protocol) => ({ protocol, port: 53 })),
            },
          ],
        },
      );
    const { namespace } = pods.client;
    const isWebReached = async () => {
      const flows = FAMILIES.map((family) => ({
        ...flowTo(pods.client, WEB_IPS[family]),
        to: { address: WEB_IPS[family], port: 80 },
      }));
      return (await cluster.prober.run(flows, { timeoutMilliseconds: 400 })).map((one) => one.reached);
    };
    const [short, long] = ["web", "many"].map(
      (name) => ({ type: "A", name: `${name}.shop.svc.cluster.local` }) as const,
    );
    assert.ok(short !== undefined && long !== undefined);
    assert.deepEqual(await isWebReached(), [true, true]);
    const policy = toDns(["UDP", "TCP"]);
    cluster.put(policy);
    await until(async () => !(await isWebReached()).includes(true), "web is out of reach");
    for (const server of [SERVER_V4, SERVER_V6]) {
      assert.deepEqual(lookUp(cluster.lab, namespace, "web", { server, namespace: "shop" }), textsOf(WEB_IPS));
      assert.equal(lookUp(cluster.lab, namespace, "many", { server, namespace: "shop" }).length, 2 * MANY.length);
    }
    cluster.put(toDns(["UDP"]));
    await until(() => ask(namespace, SERVER_V4, [long], 500)[0] === "ETIMEOUT", "no DNS by TCP any more");
    assert.deepEqual(ask(namespace, SERVER_V4, [short]), [[formatAddress(WEB_IPS[4])]]);
    assert.deepEqual(ask(namespace, SERVER_V6, [short, long], 1000), [[formatAddress(WEB_IPS[4])], "ETIMEOUT"]);
    cluster.remove(policy);
    await until(async () => !(await isWebReached()).includes(false), "web is in reach");
  });

  it("DNS-07: no query is lost once the rules are in force, while a server is removed, stops and returns", async () => {
    const { namespace } = pods.client;
    for (let round = 0; round < 2 * ROUNDS; round++) {
      const [server, going, staying] = round % 2 === 0 ? [first, pods.dns1, pods.dns2] : [second, pods.dns2, pods.dns1];
      cluster.put(...objectsOf(dns([staying])));
      const isOut = () => FAMILIES.every((family) => !cluster.isEndpoint("node1", going.addresses[family], 53));
      await until(isOut, `${going.name} is out`);
      await server.stop();
      assert.deepEqual(unanswered(namespace, 20), [], `without ${going.name}`);
      await server.start();
      cluster.put(...objectsOf(dns([pods.dns1, pods.dns2])));
      assert.deepEqual(unanswered(namespace, 40), [], `${going.name} returns`);
      await until(() => !isOut(), `${going.name} is back`);
    }
  });
});

function networkPolicy(name: string, labels: Readonly<Record<string, string>>, spec: object): KubernetesObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { namespace: "shop", name },
    spec: { podSelector: { matchLabels: labels }, ...spec },
  };
}
