import assert from "node:assert/strict";
import process from "node:process";
import { type Address, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { type ClusterPod, pairFrom, SmallCluster } from "../../support/on_top/cluster.ts";
import { DnsServer } from "../../support/on_top/dns_server.ts";
import { askHttp } from "../../support/http.ts";
import { APPLICATION, ingress, NGINX_PORT, startNginx } from "../../support/on_top/nginx.ts";
import type { Program } from "../../support/on_top/program.ts";
import { type ClusterService, objectsOf, zoneOf } from "../../support/on_top/services.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { type KubernetesObject, serviceObjects } from "../../support/services/manifest.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { type Pair, pairOf, textsOf } from "../../support/services/traffic_lab.ts";
import { until } from "../../support/until.ts";

const DNS_IPS = pairOf("10.96.0.10", "fd00:96::a");
const WEB_IPS = pairOf("10.96.0.20", "fd00:96::14");
const INGRESS_IPS = pairOf("10.96.0.30", "fd00:96::1e");
const BALANCER = pairOf("203.0.113.5", "2001:db8:5::5");
const LEGACY_IPS = pairOf("10.96.0.40", "fd00:96::28");
/** The cluster IPs at which pods reach the API, and the port on which its server listens. */
const API_IPS = pairOf("10.96.0.1", "fd00:96::1");
const API_PORT = 6443;
const NODE_PORT = 30_080;
const HTTP = { name: "http", protocol: "TCP", port: 80, targetPort: NGINX_PORT } as const;
/**
 * Milliseconds to wait for an answer that must not come. On a busy machine an answer may come later, so
 * {@link accepted} counts the connections that would have had one.
 */
const SHORT = 400;
/** In milliseconds, for an answer that has to come. */
const PATIENCE = 10_000;

/** Asks the API server at the address in the environment, and prints the answer's kind. */
const ASK_API = `
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
const authority = host.includes(":") ? "[" + host + "]:" + port : host + ":" + port;
const response = await fetch("http://" + authority + "/api/v1/pods", { signal: AbortSignal.timeout(9000) });
process.stdout.write((await response.json()).kind);
`;

/** Allows only pods of the namespace `ingress` to connect to web's pods. */
const FROM_INGRESS_ALONE = networkPolicy("shop", {
  podSelector: labelled({ app: "web" }),
  policyTypes: ["Ingress"],
  ingress: [{ from: [{ namespaceSelector: labelled({ "kubernetes.io/metadata.name": "ingress" }) }] }],
});

describe("applications on the pod network", function () {
  this.timeout(300_000);
  let cluster: SmallCluster;
  const programs: (Program | DnsServer)[] = [];
  let pods: Readonly<Record<"dns" | "controller" | "web" | "client" | "far", ClusterPod>>;

  before(async function () {
    requireKernel(this);
    for (const program of ["dnsmasq", "nginx"]) requireProgram(this, program);
    cluster = await SmallCluster.start("on-top", ["default", "kube-system", "ingress", "shop"]);
    const portMappings = [{ hostPort: 80, containerPort: NGINX_PORT, protocol: "tcp" }];
    pods = {
      dns: await cluster.pod("kube-system", "dns", "node2"),
      controller: await cluster.pod("ingress", "controller", "node1", {
        runtimeConfig: { runtimeConfig: { portMappings } },
      }),
      web: await cluster.pod("shop", "web", "node2", { labels: { app: "web" } }),
      client: await cluster.pod("shop", "client", "node1"),
      far: await cluster.pod("shop", "far", "node2"),
    };
    const services: readonly ClusterService[] = [
      {
        namespace: "kube-system",
        name: "kube-dns",
        clusterIps: DNS_IPS,
        ports: [{ name: "dns", protocol: "UDP", port: 53, targetPort: 53 }],
        endpoints: [pods.dns],
      },
      { namespace: "shop", name: "web", clusterIps: WEB_IPS, ports: [HTTP], endpoints: [pods.web] },
      {
        namespace: "ingress",
        name: "controller",
        clusterIps: INGRESS_IPS,
        ports: [{ ...HTTP, nodePort: NODE_PORT }],
        endpoints: [pods.controller],
        spec: { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: 32_000 },
        status: { loadBalancer: { ingress: FAMILIES.map((family) => ({ ip: formatAddress(BALANCER[family]) })) } },
      },
    ];
    cluster.put(...services.flatMap(objectsOf), FROM_INGRESS_ALONE);
    cluster.route(BALANCER, cluster.nodes.node1);
    const dns = new DnsServer(cluster.lab, pods.dns.namespace, zoneOf(services));
    await dns.start();
    const servers = [formatAddress(DNS_IPS[4]), `[${formatAddress(DNS_IPS[6])}]`];
    const controller = ingress("web.shop.svc.cluster.local", servers);
    programs.push(
      dns,
      await startNginx(cluster.lab, pods.web.namespace, APPLICATION),
      await startNginx(cluster.lab, pods.controller.namespace, controller),
    );
    await cluster.inForce();
  });

  after(async () => {
    await Promise.all(programs.map((program) => program.stop()));
    cluster?.close();
  });

  /** Gets a page, and asserts that the ingress asked the application for it, for a client with this address. */
  function expectPage(from: LabNamespace, to: Address, port: number, client: Address): void {
    const { status, body } = askHttp(from, formatAddress(to), port, "/", PATIENCE);
    const by = FAMILIES.map((family) => formatAddress(pods.controller.addresses[family]));
    const where = `${from.name} to ${formatAddress(to)} port ${port}: ${status} ${body}`;
    assert.equal(status, 200, where);
    const { seen, asker } = /^for (?<seen>\S+) by (?<asker>\S+)$/.exec(body.trim())?.groups ?? {};
    assert.equal(seen, formatAddress(client), where);
    assert.ok(asker !== undefined && by.includes(asker), where);
  }

  /**
   * Counts the connections that the kernel has accepted for the ingress and the application, in both families. The
   * kernel accepts at once, however late the program takes them.
   */
  function accepted(): number {
    return [pods.controller, pods.web].reduce((sum, { namespace }) => {
      const [names = "", values = ""] = namespace.exec("grep", ["^Tcp:", "/proc/net/snmp"]).split("\n");
      const at = names.split(" ").indexOf("PassiveOpens");
      return sum + Number(values.split(" ")[at]);
    }, 0);
  }

  /** Asks for pages, and asserts that none is answered and no connection accepted. */
  function expectNoPage(from: LabNamespace, ...places: readonly Endpoint[]): void {
    const before = accepted();
    for (const { address, port } of places)
      assert.equal(askHttp(from, formatAddress(address), port, "/", SHORT).body, "ETIMEDOUT");
    assert.equal(accepted(), before, `a connection of ${from.name} was accepted`);
  }

  /** Returns clients elsewhere with their addresses: beyond the router, on it, and on the other node. */
  function outsiders(): readonly (readonly [LabNamespace, Pair])[] {
    const { router, node1, node2 } = cluster.nodes;
    const { stranger } = cluster;
    return [
      [stranger.namespace, stranger.addresses],
      [router, pairFrom(node1.routerAddresses)],
      [node2.node, pairFrom(node2.addresses)],
    ];
  }

  it("ING-01 ETP-02 ETP-03: nginx as an ingress sees the client's address at a node port with policy Local, and no node without nginx answers", () => {
    const { node1, node2 } = cluster.nodes;
    for (const family of FAMILIES) {
      const to = pairFrom(node1.addresses)[family];
      for (const [from, addresses] of outsiders()) expectPage(from, to, NODE_PORT, addresses[family]);
      const elsewhere = { address: pairFrom(node2.addresses)[family], port: NODE_PORT };
      expectNoPage(cluster.stranger.namespace, elsewhere);
    }
  });

  it("ING-01 ETP-02: nginx as an ingress sees the client's address at the load balancer's address", () => {
    const { stranger, nodes } = cluster;
    for (const family of FAMILIES) {
      expectPage(stranger.namespace, BALANCER[family], 80, stranger.addresses[family]);
      expectPage(nodes.router, BALANCER[family], 80, pairFrom(nodes.node1.routerAddresses)[family]);
    }
  });

  it("ING-01 R1: nginx as an ingress sees the client's address at its pod's own host port", () => {
    for (const family of FAMILIES) {
      const to = pairFrom(cluster.nodes.node1.addresses)[family];
      for (const [from, addresses] of outsiders()) expectPage(from, to, 80, addresses[family]);
    }
  });

  it("ING-01: pods reach the ingress at its cluster IP, and the application only through the ingress", () => {
    for (const family of FAMILIES) {
      for (const { namespace, addresses } of [pods.client, pods.far]) {
        const before = accepted();
        expectPage(namespace, INGRESS_IPS[family], 80, addresses[family]);
        assert.equal(accepted() - before, 2, "one connection to the ingress, and one from it to the application");
        expectNoPage(
          namespace,
          { address: WEB_IPS[family], port: 80 },
          { address: pods.web.addresses[family], port: NGINX_PORT },
        );
      }
    }
  });

  it("ENV-03: every pod and node reaches the API server at the address in a pod's environment", async () => {
    const { node1, node2 } = cluster.nodes;
    const server = new ApiServerProcess(node2.node);
    try {
      await server.tell({ type: "listen", address: "::", port: API_PORT });
      // As a cluster has it for its API: the endpoint belongs to no pod.
      const ports = [{ name: "https", protocol: "TCP", port: 443, targetPort: API_PORT }] as const;
      const endpoint = { addresses: pairFrom(node2.addresses) };
      cluster.put(...serviceObjects("default/kubernetes", textsOf(API_IPS), ports, [endpoint]));
      await cluster.inForce();
      const senders = [...Object.values(pods).map(({ namespace }) => namespace), node1.node, node2.node];
      for (const family of FAMILIES) {
        const to = { address: API_IPS[family], port: 443 };
        for (const from of senders) {
          const { status, body } = askHttp(from, formatAddress(to.address), to.port, "/api/v1/pods", PATIENCE);
          assert.equal(status, 200, `${from.name} to ${formatAddress(to.address)}: ${body}`);
        }
        const environment = [
          `KUBERNETES_SERVICE_HOST=${formatAddress(to.address)}`,
          `KUBERNETES_SERVICE_PORT=${to.port}`,
        ];
        const program = [process.execPath, "--input-type=module", "--eval", ASK_API];
        assert.equal(pods.client.namespace.exec("env", [...environment, ...program]), "PodList");
      }
    } finally {
      await server.stop();
    }
  });

  it("EPS-11 NOSEL-07: Endpoints of two subsets are served through the slices mirrored from them; without these, clients are refused", async () => {
    const { client } = pods;
    const ports = [{ name: "", protocol: "TCP", port: 80, targetPort: 9376 }] as const;
    const [service] = serviceObjects("default/legacy", textsOf(LEGACY_IPS), ports, []);
    const subsets = [
      { pod: pods.controller, port: 9376 },
      { pod: pods.far, port: 9377 },
    ];
    for (const { pod, port } of subsets) {
      for (const family of FAMILIES) {
        cluster.prober.listen("tcp", { namespace: pod.namespace, address: pod.addresses[family], port });
      }
    }
    const slices = subsets.flatMap(({ pod, port }, i) =>
      FAMILIES.map((family) =>
        mirroredSlice(`legacy-${i}${family}`, family, formatAddress(pod.addresses[family]), port),
      ),
    );
    const flows = FAMILIES.flatMap((family) =>
      // The chance that forty connections miss one of two endpoints is one in a million million.
      Array.from(
        { length: 40 },
        () => ({ protocol: "tcp", from: client.namespace, to: { address: LEGACY_IPS[family], port: 80 } }) as const,
      ),
    );
    cluster.put(service, ...slices);
    await cluster.inForce();
    const results = await cluster.prober.run(flows, { timeoutMilliseconds: 5000 });
    assert.deepEqual(
      results.filter(({ reached }) => !reached),
      [],
    );
    for (const family of FAMILIES) {
      const seen = results
        .filter(({ flow }) => flow.to.address === LEGACY_IPS[family])
        .map(({ seenBy }) => seenBy?.name);
      assert.deepEqual(new Set(seen), new Set(["ingress-controller", "shop-far"]));
    }
    // The control plane removes the slices when the Endpoints get the label `endpointslice.kubernetes.io/skip-mirror`.
    cluster.remove(...slices);
    await until(async () => {
      const after = await cluster.prober.run(flows.slice(39, 41), { timeoutMilliseconds: 3000 });
      return after.every(({ why }) => /refused/.test(why));
    }, "connections are refused");
  });
});

/**
 * Returns the slice that the mirroring controller makes of a subset and family, with an unnamed port, no node and no
 * targetRef.
 */
function mirroredSlice(name: string, family: 4 | 6, address: string, port: number): KubernetesObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "default",
      name,
      labels: {
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        "kubernetes.io/service-name": "legacy",
      },
    },
    addressType: `IPv${family}`,
    ports: [{ name: "", protocol: "TCP", port }],
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
  };
}
