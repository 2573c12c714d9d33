import assert from "node:assert/strict";
import { type Family, formatAddress } from "../../../kernel/ip/address.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { FAMILIES, RouteLab } from "../../support/routes/route_lab.ts";

const READER_PORT = 9108;
const POD_PORT = 8080;
const CLUSTER_IPS = { 4: "10.96.0.108", 6: "fd00:96::108" } as const;
/** The first byte of VXLAN's header: there is a VNI (RFC 7348, section 5). */
const HAS_VNI = 0x08;

for (const outer of FAMILIES) {
  describe(`a Service that claims the tunnel's port at all nodes, over IPv${outer}`, function () {
    this.timeout(120_000);
    let on: RouteLab;

    before(async function () {
      requireKernel(this);
      on = new RouteLab(`tunnel-claims-${outer}`, { nodeFamilies: [outer] });
      on.put("claim.json", claim(on, outer));
      await on.start();
    });
    after(async () => {
      await on?.killAll();
      on?.[Symbol.dispose]();
    });

    it(`CLAIM-01: the tunnel over IPv${outer} carries all pods' packets; a daemon that served the Service would let a pod read them`, async () => {
      await on.untilPodsReachPods();
      const [near, , far] = on.nodes;
      await far.policyd.kill();
      // Without our defence the attack works: a daemon that serves the Service would load this.
      const { node } = far.wired;
      node.writeSysctl("net/ipv4/conf/all/rp_filter", "2");
      const ip = outer === 4 ? "ip" : "ip6";
      const pod = formatAddress(far.podAddresses[outer]);
      const to = `${outer === 4 ? pod : `[${pod}]`}:${READER_PORT}`;
      const own = formatAddress(far.addresses[outer]);
      const rule = `${ip} daddr ${own} udp dport ${TUNNEL.port} dnat ${ip} to ${to}`;
      node.exec("nft", ["insert", "rule", "inet", "drawbridge", "nat_prerouting", ...rule.split(" ")]);
      const reader = ProbeSocket.open(far.pod, outer, SocketType.DATAGRAM);
      reader.bind({ address: far.podAddresses[outer], port: READER_PORT });
      const readNow = (): number => [...reader.drain()].filter(({ kind }) => kind === "data").length;
      const flows = FAMILIES.map((family): Flow => {
        const address = far.podAddresses[family];
        return { protocol: "tcp", from: near.pod, to: { address, port: POD_PORT } };
      });
      const results = await on.prober.run(flows, { timeoutMilliseconds: 1000 });
      assert.deepEqual(
        results.map(({ reached }) => reached),
        flows.map(() => false),
      );
      let isRead = false;
      await eventually(() => {
        for (const one of reader.drain()) isRead ||= one.kind === "data" && one.data[0] === HAS_VNI;
        return isRead;
      });
      assert.ok(isRead, "the pod reads packets of other pods");
      // The next daemon does not serve the Service, though it is still there.
      await far.policyd.start(["--encapsulation=auto"]);
      await on.untilPodsReachPods();
      // These are the last packets by the earlier rule.
      readNow();
      await on.untilPodsReachPods();
      assert.equal(readNow(), 0);
      reader.close();
    });
  });
}

/** Returns a Service with every node's address and the tunnel's port, which leads to a pod of node3. */
function claim({ nodes }: RouteLab, family: Family): string {
  const [, , far] = nodes;
  const port = { name: "", protocol: "UDP" } as const;
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "claim", namespace: "default" },
    spec: {
      clusterIPs: [CLUSTER_IPS[family]],
      ipFamilies: [`IPv${family}`],
      externalIPs: nodes.map(({ addresses }) => formatAddress(addresses[family])),
      ports: [{ ...port, port: TUNNEL.port }],
    },
  };
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: "claim-1", namespace: "default", labels: { "kubernetes.io/service-name": "claim" } },
    addressType: `IPv${family}`,
    ports: [{ ...port, port: READER_PORT }],
    endpoints: [
      { addresses: [formatAddress(far.podAddresses[family])], conditions: { ready: true }, nodeName: "node3" },
    ],
  };
  return JSON.stringify({ apiVersion: "v1", kind: "List", items: [service, slice] });
}
