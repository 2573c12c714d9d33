import type { ProtectedSocket } from "../../../objects/socket_refusal.ts";
import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { nodeManifest, SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import type { ServicedNodeOptions } from "../../support/services/serviced_node.ts";
import { CLUSTER_IPS, type Pair, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_090;
const BALANCER = pairOf("198.51.100.9", "2001:db8:9::9");
const OTHER_IPS = pairOf("10.96.0.11", "fd00:96::b");
const transports = ["tcp", "udp"] as const;

/** Returns manifests whose objects the API server made in a year. */
function madeIn(year: string, manifests: string): string {
  return manifests.replaceAll('"metadata":{', `"metadata":{"creationTimestamp":"${year}-01-01T00:00:00Z",`);
}

function withoutAge(manifests: string): string {
  return manifests.replaceAll(/"creationTimestamp":"[^"]*",/g, "");
}

type Protection = NonNullable<ServicedNodeOptions["protection"]>;

describe("Services that claim what nodes depend on", function () {
  this.timeout(300_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    on = new TrafficLab("claimed", true);
    on.route([BALANCER]);
    // These listeners stand for the API server.
    listen(on.nodes.router, on.outside, SERVICE_PORT);
  });

  afterEach(() => {
    on?.here.apply("");
    on?.here.restart({});
  });
  after(() => on?.[Symbol.dispose]());

  /** Returns the clients of the API server on the node: a pod, and the node itself. */
  const askers = (): readonly LabNamespace[] => [on.client.namespace, on.nodes.node1.node];

  const protecting = (sockets: readonly ProtectedSocket[], settings: Partial<Protection> = {}): Protection => ({
    ports: [],
    sockets,
    isRefused: true,
    isKept: false,
    ...settings,
  });

  /** Returns the sockets of a TCP port at both addresses. */
  const socketsAt = (pair: Pair, port: number): readonly ProtectedSocket[] =>
    FAMILIES.map((family) => ({ address: pair[family], protocol: "TCP", port, owner: "the API server" }));

  const listen = (namespace: LabNamespace, pair: Pair, port: number): void => {
    for (const family of FAMILIES) {
      for (const protocol of transports) on.prober.listen(protocol, { namespace, address: pair[family], port });
    }
  };

  const flows = (to: Pair, protocol: "tcp" | "udp", port = SERVICE_PORT): readonly Flow[] =>
    askers().flatMap((from) => on.flows(from, to, { port, transports: [protocol] }));

  const byExternalIps = (pair: Pair): string =>
    serviceManifest("evil", textsOf(CLUSTER_IPS), on.at(on.near), { externalIPs: textsOf(pair) });
  const byBalancer = (pair: Pair): string =>
    serviceManifest("evil", textsOf(CLUSTER_IPS), on.at(on.near), {
      status: { loadBalancer: { ingress: textsOf(pair).map((ip) => ({ ip })) } },
    });

  it("CLAIM-01 CLAIM-04 CVE-2020-8554: connections to the API server reach it though a Service claims its address, and the rest of the Service works", async () => {
    for (const manifest of [byExternalIps(on.outside), byBalancer(on.outside)]) {
      // Without our defence the attack works.
      on.here.restart({});
      on.here.apply(manifest);
      for (const protocol of transports) await on.reach(flows(on.outside, protocol), [on.near]);
      const sockets = socketsAt(on.outside, SERVICE_PORT);
      // Each of the two layers is enough by itself: the claim is refused, and rules that exist do not translate.
      for (const layers of [
        { isRefused: true, isKept: false },
        { isRefused: false, isKept: true },
        { isRefused: true, isKept: true },
      ]) {
        on.here.restart({ protection: protecting(sockets, layers) });
        await on.reach(flows(on.outside, "tcp"), [{ namespace: on.nodes.router }]);
        // Only this address and TCP port are protected: the Service keeps UDP and its own address.
        await on.reach(flows(on.outside, "udp"), [on.near]);
        for (const protocol of transports) await on.reach(flows(CLUSTER_IPS, protocol), [on.near]);
      }
    }
  });

  it("CLAIM-01: the node keeps its protected port, also for outside clients; without protection a node port or an external IP takes it", async () => {
    const { node } = on.nodes.node1;
    const own = on.addressesOf("node1");
    for (const port of [NODE_PORT, SERVICE_PORT]) listen(node, own, port);
    const all = (protocol: "tcp" | "udp", port: number): readonly Flow[] =>
      [...askers(), on.nodes.router].flatMap((from) => on.flows(from, own, { port, transports: [protocol] }));
    const claims = [
      [serviceManifest("evil", textsOf(CLUSTER_IPS), on.at(on.near), {}, NODE_PORT), NODE_PORT],
      [byExternalIps(own), SERVICE_PORT],
      [byBalancer(own), SERVICE_PORT],
    ] as const;
    for (const [manifest, port] of claims) {
      const manifests = `${manifest}${nodeManifest("node1", textsOf(own))}`;
      on.here.restart({});
      on.here.apply(manifests);
      for (const protocol of transports) await on.reach(all(protocol, port), [on.near]);
      const ports = [{ protocol: "TCP", port, owner: "the kubelet" }] as const;
      on.here.restart({ protection: protecting([], { ports }) });
      await on.reach(all("tcp", port), [{ namespace: node }]);
      await on.reach(all("udp", port), [on.near]);
      // A single protected address also keeps its port, whatever node port a Service has.
      on.here.restart({ protection: protecting(socketsAt(own, port)) });
      await on.reach(all("tcp", port), [{ namespace: node }]);
      await on.reach(all("udp", port), [on.near]);
    }
  });

  it("CLAIM-06 CVE-2020-8554: an external IP that is the node's address takes no port of a program or of another pod's host port, but a free one, which it keeps", async () => {
    const { node } = on.nodes.node1;
    const own = on.addressesOf("node1");
    const tenant = on.pod("tenant");
    const [program, hosted, free] = [22, 8022, 9022];
    const all = (port: number): readonly Flow[] =>
      [...askers(), on.nodes.router].flatMap((from) => on.flows(from, own, { port, transports }));
    const evil = (port: number, last: number): string =>
      serviceManifest(`evil${port}`, [`10.96.1.${last}`, `fd00:96::1:${last}`], on.at(on.near), {
        externalIPs: textsOf(own),
        ports: transports.map((protocol) => ({ name: protocol, protocol: protocol.toUpperCase(), port })),
      });
    const services = [program, hosted, free].map(evil).join("");
    listen(node, own, program);
    on.here.publish(tenant, hosted, TARGET_PORT);
    // Without our defence the attack works, as with kube-proxy.
    on.here.restart({});
    on.here.apply(services);
    for (const port of [program, hosted, free]) await on.reach(all(port), [on.near]);
    // A daemon that starts takes nothing away that a Service has.
    on.here.restart({ isYielding: true });
    for (const port of [program, hosted, free]) await on.reach(all(port), [on.near]);
    on.here.apply("");
    on.here.apply(services);
    const yields = async (): Promise<void> => {
      await on.reach(all(program), [{ namespace: node }]);
      await on.reach(all(hosted), [tenant]);
      await on.reach(all(free), [on.near]);
    };
    await yields();
    // A listener that comes later changes nothing, also for another daemon.
    listen(node, own, free);
    on.here.apply(services.replaceAll('"name":"evil', '"annotations":{"a":"b"},"name":"evil'));
    await yields();
    on.here.restart({ isYielding: true });
    await yields();
  });

  it("CLAIM-01: a Service without endpoints does not get a protected socket either, so connections to the socket are not refused", async () => {
    const { node } = on.nodes.node1;
    const own = on.addressesOf("node1");
    const flow = [...askers(), on.nodes.router].flatMap((from) =>
      on.flows(from, own, { port: NODE_PORT, transports: ["tcp"] }),
    );
    const manifests = `${serviceManifest("evil", textsOf(CLUSTER_IPS), [], {}, NODE_PORT)}${nodeManifest("node1", textsOf(own))}`;
    on.here.restart({});
    on.here.apply(manifests);
    await on.fail(flow);
    on.here.restart({ protection: protecting(socketsAt(own, NODE_PORT)) });
    await on.reach(flow, [{ namespace: node }]);
    const ports = [{ protocol: "TCP", port: NODE_PORT, owner: "the kubelet" }] as const;
    on.here.restart({ protection: protecting([], { ports }) });
    await on.reach(flow, [{ namespace: node }]);
  });

  it("CLAIM-02: an external IP or a balancer's address takes an address of a pod without protection, and not with it", async () => {
    const victim = on.pod("victim");
    listen(victim.namespace, victim.addresses, SERVICE_PORT);
    for (const manifest of [byExternalIps(victim.addresses), byBalancer(victim.addresses)]) {
      on.here.restart({});
      on.here.apply(manifest);
      for (const protocol of transports) await on.reach(flows(victim.addresses, protocol), [on.near]);
      on.here.restart({ protection: protecting([]) });
      for (const protocol of transports) await on.reach(flows(victim.addresses, protocol), [victim]);
    }
  });

  it("CLAIM-05: an external IP does not take another Service's balancer address, older external IP or node port", async () => {
    const own = on.addressesOf("node1");
    const evil = on.pod("evil");
    const all = (pair: Pair): readonly Flow[] =>
      [...askers(), on.nodes.router].flatMap((from) => on.flows(from, pair, { transports }));
    // The evil Service is the first by name, and the younger one.
    const taking = (pair: Pair): string =>
      madeIn("2026", serviceManifest("evil", textsOf(OTHER_IPS), on.at(evil), { externalIPs: textsOf(pair) }));
    const serving = (spec: Readonly<Record<string, unknown>>, nodePort?: number): string =>
      madeIn("2025", serviceManifest("web", textsOf(CLUSTER_IPS), on.at(on.near), spec, nodePort));
    const ingress = textsOf(BALANCER).map((ip) => ({ ip }));
    const cases = [
      [BALANCER, serving({ status: { loadBalancer: { ingress } } })],
      [BALANCER, serving({ externalIPs: textsOf(BALANCER) })],
      [own, serving({}, SERVICE_PORT)],
    ] as const;
    const node = nodeManifest("node1", textsOf(own));
    on.here.restart({ protection: protecting([]) });
    for (const [pair, web] of cases) {
      // The evil Service gets an address that no other Service has, and loses it to the rightful one in either order.
      on.here.apply(`${taking(pair)}${node}`);
      await on.reach(all(pair), [evil]);
      on.here.apply(`${taking(pair)}${web}${node}`);
      await on.reach(all(pair), [on.near]);
      on.here.apply(`${web}${node}`);
      on.here.apply(`${taking(pair)}${web}${node}`);
      await on.reach(all(pair), [on.near]);
      for (const protocol of transports) await on.reach(flows(OTHER_IPS, protocol), [evil]);
    }
    // Where no age is known, the first Service by name has the address. Where no Node's address is known, an external
    // IP comes before all node ports.
    const [, [, older], [, port]] = cases;
    on.here.apply(withoutAge(`${taking(BALANCER)}${older}`));
    await on.reach(all(BALANCER), [evil]);
    on.here.restart({});
    on.here.apply(`${taking(own)}${port}`);
    await on.reach(all(own), [evil]);
  });

  it("CLAIM-01: a load balancer's own address keeps every port, also ports that are protected on nodes", async () => {
    const own = textsOf(on.addressesOf("node1"));
    const ports = [{ protocol: "TCP", port: SERVICE_PORT, owner: "the kubelet" }] as const;
    on.here.restart({ protection: protecting([], { ports }) });
    on.here.apply(`${byBalancer(BALANCER)}${nodeManifest("node1", own)}`);
    const from = [...askers(), on.nodes.router];
    await on.reach(
      from.flatMap((one) => on.flows(one, BALANCER, { transports })),
      [on.near],
    );
  });

  it("CLAIM-04: a rule of another program does not translate connections to a kept address either", async () => {
    const { node } = on.nodes.node1;
    const port = SERVICE_PORT;
    node.exec("nft", ["add", "table", "inet", "others"]);
    for (const hook of ["prerouting", "output"]) {
      node.exec("nft", `add chain inet others ${hook} { type nat hook ${hook} priority -100 ; }`.split(" "));
      for (const family of FAMILIES) {
        const [ip, to] =
          family === 4
            ? ["ip", formatAddress(on.near.addresses[4])]
            : ["ip6", `[${formatAddress(on.near.addresses[6])}]`];
        const rule = `add rule inet others ${hook} ${ip} daddr ${formatAddress(on.outside[family])} tcp dport ${port} dnat ${ip} to ${to}:8080`;
        node.exec("nft", rule.split(" "));
      }
    }
    on.here.restart({});
    await on.reach(flows(on.outside, "tcp"), [on.near]);
    on.here.restart({ protection: protecting(socketsAt(on.outside, port), { isKept: true }) });
    await on.reach(flows(on.outside, "tcp"), [{ namespace: on.nodes.router }]);
    node.exec("nft", ["delete", "table", "inet", "others"]);
  });
});
