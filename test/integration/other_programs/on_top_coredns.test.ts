import assert from "node:assert/strict";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import { API_IPS, API_PORT, apiService } from "../../support/on_top/api_service.ts";
import { type ClusterPod, pairFrom, SmallCluster, until } from "../../support/on_top/cluster.ts";
import { requireCoreDns, startCoreDns } from "../../support/on_top/coredns.ts";
import type { Program } from "../../support/on_top/program.ts";
import { ask, lookUp } from "../../support/on_top/resolver.ts";
import { type ClusterService, objectsOf } from "../../support/on_top/services.ts";
import { requireKernel } from "../../support/privilege.ts";
import { FAMILIES, pairOf, textsOf } from "../../support/services/traffic_lab.ts";

const DNS_IPS = pairOf("10.96.0.10", "fd00:96::a");
const WEB_IPS = pairOf("10.96.0.20", "fd00:96::14");
const HTTP = { name: "http", protocol: "TCP", port: 80, targetPort: 8080 } as const;

describe("CoreDNS at a cluster IP", function () {
  this.timeout(120_000);
  let cluster: SmallCluster | undefined;
  let server: ApiServerProcess | undefined;
  let program: Program | undefined;

  after(async () => {
    await program?.stop();
    await server?.stop();
    await cluster?.close();
  });

  it("DNS-01 DNS-02 DNS-03 ENV-03: CoreDNS watches the API server at its cluster IP, and resolves Services and pods for both nodes", async function () {
    requireKernel(this);
    const file = requireCoreDns(this);
    cluster = await SmallCluster.start("on-top-coredns", ["default", "kube-system", "shop"]);
    const { lab, nodes } = cluster;
    const dns = cluster.pod("kube-system", "coredns", "node1");
    const [client, far] = [cluster.pod("shop", "client", "node1"), cluster.pod("shop", "far", "node2")];
    const shop = { namespace: "shop", ports: [HTTP] };
    const db = (endpoints: readonly ClusterPod[]): ClusterService => ({
      ...shop,
      name: "db",
      clusterIps: undefined,
      endpoints,
    });
    const services: readonly ClusterService[] = [
      {
        namespace: "kube-system",
        name: "kube-dns",
        clusterIps: DNS_IPS,
        ports: [
          { name: "dns", protocol: "UDP", port: 53, targetPort: 53 },
          { name: "dns-tcp", protocol: "TCP", port: 53, targetPort: 53 },
        ],
        endpoints: [dns],
      },
      { ...shop, name: "web", clusterIps: WEB_IPS, endpoints: [far] },
      db([client]),
    ];
    cluster.put(...services.flatMap(objectsOf), ...apiService(pairFrom(nodes.node2.addresses)));
    await cluster.inForce();
    server = new ApiServerProcess(nodes.node2.node);
    await server.tell({ type: "listen", address: "::", port: API_PORT });
    await server.apply(...cluster.objects);
    program = await startCoreDns(lab, dns.namespace, file, `http://${formatAddress(API_IPS[4])}:443`);

    const [v4, v6] = [formatAddress(DNS_IPS[4]), formatAddress(DNS_IPS[6])];
    const web = { type: "A", name: "web.shop.svc.cluster.local" } as const;
    await until(
      () => String(ask(client.namespace, v4, [web])[0]) === formatAddress(WEB_IPS[4]),
      "CoreDNS resolves the Service",
    );
    for (const [from, address] of [
      [client.namespace, v6],
      [far.namespace, v4],
      [nodes.node1.node, v6],
      [nodes.node2.node, v4],
    ] as const) {
      const find = (name: string, options = "") =>
        lookUp(lab, from, name, { server: address, namespace: "shop", options });
      for (const name of ["web", "web.shop", "web.shop.svc.cluster.local"]) {
        assert.deepEqual(find(name), textsOf(WEB_IPS), `${name} from ${from.name}`);
      }
      assert.deepEqual(find("web", "use-vc"), textsOf(WEB_IPS));
      assert.deepEqual(find("db"), textsOf(client.addresses));
    }
    assert.deepEqual(
      ask(far.namespace, v4, [
        { type: "SRV", name: "_http._tcp.web.shop.svc.cluster.local" },
        { type: "SRV", name: "_http._tcp.db.shop.svc.cluster.local" },
        ...FAMILIES.map((family) => ({ type: "PTR", name: formatAddress(WEB_IPS[family]) }) as const),
        { type: "A", name: "nothing.shop.svc.cluster.local" },
      ]),
      [
        ["web.shop.svc.cluster.local:80"],
        ["client.db.shop.svc.cluster.local:8080"],
        ["web.shop.svc.cluster.local"],
        ["web.shop.svc.cluster.local"],
        "ENOTFOUND",
      ],
    );
    await server.apply(...objectsOf(db([far])));
    const find = () => lookUp(lab, client.namespace, "db", { server: v4, namespace: "shop" });
    await until(() => find().join() === textsOf(far.addresses).join(), "CoreDNS resolves the new endpoint");
  });
});
