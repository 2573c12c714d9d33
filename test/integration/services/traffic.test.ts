import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { routeTo, type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { reach } from "../../support/guard/reachability.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { ServicedNode, type ServicedPod } from "../../support/services/serviced_node.ts";

const FAMILIES = [4, 6] as const;
const TRANSPORTS = ["tcp", "udp", "sctp"] as const;
const CLUSTER_IPS = { 4: parseAddress("10.96.0.10"), 6: parseAddress("fd00:96::a") } as const;
const BALANCER = { 4: parseAddress("203.0.113.5"), 6: parseAddress("2001:db8:5::5") } as const;
/** Cluster IPs of tests that count new connections: a source port of another test would continue that test's flow. */
const COUNTED = { 4: parseAddress("10.96.0.11"), 6: parseAddress("fd00:96::b") } as const;
const TIMED = { 4: parseAddress("10.96.0.12"), 6: parseAddress("fd00:96::c") } as const;
const CLUSTER_TEXTS = FAMILIES.map((family) => formatAddress(CLUSTER_IPS[family]));
const NODE_PORT = 40_080;

for (const bridgeNetfilter of [true, false]) {
  describe(`Services in packets, br_netfilter ${bridgeNetfilter ? "on" : "off"}, rp_filter strict`, () => {
    let lab: Lab;
    let nodes: TwoNodes;
    let here: ServicedNode;
    let there: ServicedNode;
    let client: ServicedPod;
    let near: ServicedPod;
    let far: ServicedPod;
    let prober: Prober;

    before(function () {
      requireKernel(this);
      if (bridgeNetfilter) requireBridgeNetfilter(this);
      lab = createLab(`services-${bridgeNetfilter ? "on" : "off"}`);
      nodes = twoNodes(lab, { bridgeNetfilter, reversePathFilter: 1 });
      const podCidrs = [...nodes.node1.podCidrs, ...nodes.node2.podCidrs];
      here = new ServicedNode(lab, nodes.node1, podCidrs);
      there = new ServicedNode(lab, nodes.node2, podCidrs);
      client = here.pod("client");
      near = here.pod("near");
      far = there.pod("far");
      for (const family of FAMILIES) {
        const gateway = nodes.node1.addresses[family === 4 ? 0 : 1];
        for (const address of [CLUSTER_IPS[family], BALANCER[family]]) {
          nodes.router.route.request(newRoute(routeTo(hostCidr(address), gateway)));
        }
      }
      // The kernel reports one refusal a second to a sender; here each probe waits for its own.
      for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) nodes.node1.node.writeSysctl(key, "0");
      prober = new Prober(lab.calls);
      for (const { namespace, addresses } of [client, near, far]) {
        for (const family of FAMILIES) {
          for (const transport of TRANSPORTS) {
            prober.listen(transport, { namespace, address: addresses[family], port: TARGET_PORT });
          }
        }
      }
    });

    after(() => {
      prober?.close();
      here?.[Symbol.dispose]();
      there?.[Symbol.dispose]();
      lab?.destroy();
    });

    const at = (pod: ServicedPod, node = pod === far ? "node2" : "node1") =>
      FAMILIES.map((family) => ({ address: pod.addresses[family], nodeName: node }));

    const flows = (from: LabNamespace, to: Readonly<Record<4 | 6, Address>>, port = SERVICE_PORT): readonly Flow[] =>
      FAMILIES.flatMap((family) =>
        TRANSPORTS.map((protocol) => ({ protocol, from, to: { address: to[family], port } })),
      );

    const nodeAddress = (node: "node1" | "node2"): Readonly<Record<4 | 6, Address>> => ({
      4: nodes[node].addresses[0],
      6: nodes[node].addresses[1],
    });

    const familyOfFlow = ({ flow }: ProbeResult): 4 | 6 => (typeof flow.to.address === "number" ? 4 : 6);

    /** Measures flows, all of which must fail. */
    const fail = async (list: readonly Flow[], timeoutMilliseconds: number): Promise<readonly ProbeResult[]> => {
      const results = await prober.run(list, { timeoutMilliseconds });
      assert.deepEqual(
        results
          .filter(({ reached }) => reached)
          .map(({ flow }) => `${flow.protocol} ${formatAddress(flow.to.address)}`),
        [],
      );
      return results;
    };

    it("SVC-04 SVC-09 SVC-13 POD-22: a pod reaches every endpoint, near and far, and these see the pod's own address", async () => {
      here.apply(serviceManifest("web", CLUSTER_TEXTS, [...at(near), ...at(far)]));
      const results = await reach(
        prober,
        Array.from({ length: 20 }, () => flows(client.namespace, CLUSTER_IPS)).flat(),
      );
      for (const protocol of TRANSPORTS) {
        for (const family of FAMILIES) {
          const seen = results.filter((one) => one.flow.protocol === protocol && familyOfFlow(one) === family);
          assert.deepEqual(
            new Set(seen.map(({ seenBy }) => seenBy)),
            new Set([near.namespace, far.namespace]),
            `${protocol} over IPv${family}`,
          );
          for (const { seenSource } of seen) assert.equal(seenSource, client.addresses[family]);
        }
      }
    });

    it("SVC-14 SVC-15 SVC-17: endpoints see the node and clients outside with the node's address on the link towards the endpoint", async () => {
      for (const [pod, source] of [
        [near, { 4: nodes.node1.gateways[0], 6: nodes.node1.gateways[1] }],
        [far, nodeAddress("node1")],
      ] as const) {
        here.apply(serviceManifest("web", CLUSTER_TEXTS, at(pod)));
        for (const from of [nodes.node1.node, nodes.router]) {
          for (const result of await reach(prober, flows(from, CLUSTER_IPS))) {
            assert.equal(result.seenBy, pod.namespace);
            assert.equal(result.seenSource, source[familyOfFlow(result)]);
          }
        }
      }
    });

    it("SVC-09 EPS-10: each of nine endpoints gets its share of connections, counted by the kernel", async () => {
      const address = near.addresses[4];
      const slices = Array.from({ length: 9 }, (_, i) => ({
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: { name: `nine-${i}`, labels: { "kubernetes.io/service-name": "nine" } },
        addressType: "IPv4",
        ports: [{ name: "udp", protocol: "UDP", port: 9000 + i }],
        endpoints: [{ addresses: [formatAddress(address)], nodeName: "node1" }],
      }));
      for (let i = 0; i < 9; i++) prober.listen("udp", { namespace: near.namespace, address, port: 9000 + i });
      const text = slices.map((slice) => `---\n${JSON.stringify(slice)}\n`).join("");
      here.apply(serviceManifest("nine", [formatAddress(COUNTED[4])], []) + text);
      const to = { address: COUNTED[4], port: SERVICE_PORT };
      const list: Flow[] = Array.from({ length: 900 }, () => ({ protocol: "udp", from: client.namespace, to }));
      // A connection that draws no endpoint then gets none.
      const frontend = `{ ${formatAddress(COUNTED[4])} . udp . ${SERVICE_PORT} }`;
      const change = (verb: string, elements: string): string =>
        nodes.node1.node.exec("nft", [verb, "element", "inet", "drawbridge", "rest_service4", elements]);
      const rest = /\{ \S+ \. udp \. 80 : [^}]*\}/.exec(change("get", frontend))?.[0];
      assert.ok(rest !== undefined);
      change("delete", frontend);
      const others = (await prober.run(list)).filter(({ reached }) => !reached).length;
      change("add", rest);
      // The chance of sixteen draws without an endpoint is 900 times (7/16)^16, and this twice.
      assert.ok(others < 2, `${others} connections have drawn no endpoint`);
      const set = nodes.node1.node.exec("nft", ["list", "set", "inet", "drawbridge", "connections4"]);
      const counts = Array.from({ length: 9 }, (_, i) => {
        const endpoint = `${formatAddress(address)} \\. ${9000 + i}`;
        return Number(new RegExp(`${endpoint} counter packets (\\d+)`).exec(set)?.[1] ?? 0);
      });
      // A source port that comes up again within the time of a flow belongs to that flow.
      const total = counts.reduce((sum, count) => sum + count, others);
      assert.ok(total > 800 && total <= 900, `${total} connections`);
      // The bounds are more than five standard deviations from a hundred: the chance is one in ten million.
      for (const count of counts) assert.ok(count > 45 && count < 160, counts.join(" "));
    });

    it("POD-12: a pod that a Service sends to itself sees the bridge's address", async () => {
      here.apply(serviceManifest("self", CLUSTER_TEXTS, at(client)));
      for (const result of await reach(prober, flows(client.namespace, CLUSTER_IPS))) {
        assert.equal(result.seenBy, client.namespace);
        assert.equal(result.seenSource, nodes.node1.gateways[familyOfFlow(result) === 4 ? 0 : 1]);
      }
    });

    it("NODE-01 NODE-03 NODE-06 NODE-07 NODE-09 NODE-11: a NodePort leads from every address of the node to a pod elsewhere", async () => {
      here.apply(serviceManifest("port", CLUSTER_TEXTS, at(far), {}, NODE_PORT));
      const own = nodeAddress("node1");
      const gateways = { 4: nodes.node1.gateways[0], 6: nodes.node1.gateways[1] };
      const results = await reach(prober, [
        ...[nodes.router, nodes.node1.node, client.namespace].flatMap((from) => flows(from, own, NODE_PORT)),
        ...flows(client.namespace, gateways, NODE_PORT),
      ]);
      for (const result of results) assert.equal(result.seenSource, own[familyOfFlow(result)]);
      // The same port of another address is not the node's.
      await fail(flows(client.namespace, CLUSTER_IPS, NODE_PORT), 2500);
      await fail(flows(client.namespace, nodeAddress("node2"), NODE_PORT), 1000);
    });

    it("ETP-02 ETP-03 ETP-04 ETP-06: policy Local shows the client's address, and drops in silence without a local endpoint", async () => {
      const local = { externalTrafficPolicy: "Local" };
      const own = nodeAddress("node1");
      here.apply(serviceManifest("port", CLUSTER_TEXTS, [...at(near), ...at(far)], local, NODE_PORT));
      for (const result of await reach(prober, flows(nodes.router, own, NODE_PORT))) {
        assert.equal(result.seenBy, near.namespace);
        assert.equal(result.seenSource, nodes.node1.routerAddresses[familyOfFlow(result) === 4 ? 0 : 1]);
      }
      here.apply(serviceManifest("port", CLUSTER_TEXTS, at(far), local, NODE_PORT));
      const before = here.dropped(ServiceDropReason.NO_LOCAL);
      const silent = await fail(flows(nodes.router, own, NODE_PORT), 400);
      for (const { why } of silent) assert.match(why, /^no answer/);
      assert.ok(here.dropped(ServiceDropReason.NO_LOCAL) - before >= silent.length);
      for (const result of await reach(prober, flows(client.namespace, own, NODE_PORT))) {
        assert.equal(result.seenSource, client.addresses[familyOfFlow(result)]);
      }
      for (const result of await reach(prober, flows(nodes.node1.node, own, NODE_PORT))) {
        assert.equal(result.seenSource, own[familyOfFlow(result)]);
      }
    });

    it("NE-01 NE-02 NE-06 NE-08: without endpoints all clients are refused at all frontends, until there is one", async () => {
      const own = nodeAddress("node1");
      here.apply(serviceManifest("none", CLUSTER_TEXTS, [], {}, NODE_PORT));
      const refused = await fail(
        [nodes.router, nodes.node1.node, client.namespace].flatMap((from) => [
          ...flows(from, CLUSTER_IPS),
          ...flows(from, own, NODE_PORT),
          ...flows(from, CLUSTER_IPS, SERVICE_PORT + 1),
        ]),
        3000,
      );
      const unheard = refused.filter(({ flow, why }) => flow.protocol !== "sctp" && why.startsWith("no answer"));
      assert.deepEqual(
        unheard.map(({ flow, why }) => `${flow.protocol} ${flow.from.name} ${formatAddress(flow.to.address)}: ${why}`),
        [],
      );
      here.apply(serviceManifest("none", CLUSTER_TEXTS, at(near), {}, NODE_PORT));
      await reach(prober, [...flows(client.namespace, CLUSTER_IPS), ...flows(nodes.router, own, NODE_PORT)]);
    });

    it("LB-03 LB-04 LB-06: a load balancer's address is served only to its source ranges", async () => {
      const ingress = FAMILIES.map((family) => ({ ip: formatAddress(BALANCER[family]) }));
      const manifest = (ranges: readonly string[]): string =>
        serviceManifest(
          "balanced",
          CLUSTER_TEXTS,
          at(near),
          { type: "LoadBalancer", loadBalancerSourceRanges: ranges, status: { loadBalancer: { ingress } } },
          NODE_PORT,
        );
      here.apply(manifest(["192.0.2.0/24", "2001:db8::/32"]));
      await reach(prober, flows(nodes.router, BALANCER));
      here.apply(manifest(["198.51.100.0/24", "2001:db8:ffff::/48"]));
      const silent = await fail(flows(nodes.router, BALANCER), 400);
      for (const { why } of silent) assert.match(why, /^no answer/);
      assert.ok(here.dropped(ServiceDropReason.SOURCE) >= silent.length);
      await reach(prober, flows(nodes.router, nodeAddress("node1"), NODE_PORT));
    });

    it("SA-01 SA-03 SA-05 SA-06 SA-08: a client keeps its endpoint at every frontend until the endpoint goes", async () => {
      const sticky = { sessionAffinity: "ClientIP" };
      const both = [...at(near), ...at(far)];
      const own = nodeAddress("node1");
      const places = async (from: LabNamespace): Promise<ReadonlyMap<string, LabNamespace | undefined>> => {
        const rounds = Array.from({ length: 12 }, () => [
          ...flows(from, CLUSTER_IPS),
          ...flows(from, own, NODE_PORT),
        ]).flat();
        // The first ones come before the others: connections that come at once have nothing to remember yet.
        const first = await reach(prober, [...flows(from, CLUSTER_IPS)]);
        const found = new Map<string, LabNamespace | undefined>();
        for (const result of [...first, ...(await reach(prober, rounds))]) {
          const port = `${result.flow.protocol} ${familyOfFlow(result)}`;
          if (found.has(port)) assert.equal(result.seenBy, found.get(port), `${port} from ${from.name}`);
          found.set(port, result.seenBy);
        }
        return found;
      };
      here.apply(serviceManifest("sticky", CLUSTER_TEXTS, both, sticky, NODE_PORT));
      const choices = [await places(client.namespace), await places(nodes.router), await places(nodes.node1.node)];
      const all = choices.flatMap((found) => [...found.values()]);
      // The chance that eighteen choices all fall alike is one in 130,000.
      assert.deepEqual(new Set(all), new Set([near.namespace, far.namespace]));
      // A new endpoint disturbs no client, and one that goes disturbs only its own.
      here.apply(serviceManifest("sticky", CLUSTER_TEXTS, [...both, ...at(client)], sticky, NODE_PORT));
      assert.deepEqual(await places(client.namespace), choices[0]);
      here.apply(serviceManifest("sticky", CLUSTER_TEXTS, at(near), sticky, NODE_PORT));
      for (const by of (await places(client.namespace)).values()) assert.equal(by, near.namespace);
      here.apply(serviceManifest("sticky", CLUSTER_TEXTS, both, sticky, NODE_PORT));
      for (const by of (await places(client.namespace)).values()) assert.equal(by, near.namespace);
    });

    it("SA-02 SA-03 SA-09: each new connection restarts a client's time, and the client is forgotten at its end", async () => {
      const sticky = (timeoutSeconds: number): string =>
        serviceManifest(
          "brief",
          Object.values(TIMED).map((address) => formatAddress(address)),
          [...at(near), ...at(far)],
          {
            sessionAffinity: "ClientIP",
            sessionAffinityConfig: { clientIP: { timeoutSeconds } },
          },
        );
      /** Returns the milliseconds left of each entry with this timeout. */
      const left = (timeout: string): readonly number[] => {
        const lists = FAMILIES.map((family) =>
          nodes.node1.node.exec("nft", ["list", "map", "inet", "drawbridge", `client${family}`]),
        );
        const pattern = new RegExp(`timeout ${timeout} expires (?:(\\d+)m)?(?:(\\d+)s)?(?:(\\d+)ms)?`, "g");
        return lists.flatMap((text) =>
          [...text.matchAll(pattern)].map(
            ([, minutes = 0, seconds = 0, rest = 0]) =>
              60_000 * Number(minutes) + 1000 * Number(seconds) + Number(rest),
          ),
        );
      };
      here.apply(sticky(120));
      await reach(prober, flows(client.namespace, TIMED));
      await sleep(1500);
      const start = performance.now();
      await reach(prober, flows(client.namespace, TIMED));
      const entries = left("2m");
      const most = performance.now() - start;
      assert.equal(entries.length, FAMILIES.length * TRANSPORTS.length);
      for (const milliseconds of entries) assert.ok(milliseconds > 120_000 - most - 500, `${milliseconds} ms left`);
      here.apply(sticky(1));
      await reach(prober, flows(client.namespace, TIMED));
      await sleep(1200);
      // An entry is listed with the timeout that it began with.
      for (const timeout of ["2m", "1s"]) assert.deepEqual(left(timeout), []);
      await reach(prober, flows(client.namespace, TIMED));
    });
  });
}
