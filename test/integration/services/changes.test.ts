import assert from "node:assert/strict";
import { formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { requireKernel } from "../../support/privilege.ts";
import { nodeManifest, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import type { ServicedPod } from "../../support/services/serviced_node.ts";
import { CLUSTER_IPS, type Pair, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const BALANCER = pairOf("203.0.113.5", "2001:db8:5::5");
const EXTERNAL = pairOf("198.51.100.7", "2001:db8:7::7");
/** Addresses in no range of the cluster. */
const PICKED = pairOf("198.18.77.3", "2001:db8:77::3");
/** The cluster IP of the test that counts connections: a source port of another test would continue that test's flow. */
const COUNTED = parseAddress("10.96.0.11");
const ALL_TEXTS = [CLUSTER_IPS, BALANCER, EXTERNAL].flatMap((pair) => textsOf(pair));

describe("Services that change while they are in use", function () {
  this.timeout(300_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("changes", false);
    on.route([CLUSTER_IPS, PICKED, BALANCER, EXTERNAL]);
  });

  after(() => on?.[Symbol.dispose]());

  const fromClient = (pair = CLUSTER_IPS) => on.flows(on.client.namespace, pair);
  const texts = textsOf(CLUSTER_IPS);

  it("SVC-09 EPS-10: each of nine endpoints gets its share of connections, counted by the kernel", async () => {
    const address = on.near.addresses[4];
    const slices = Array.from({ length: 9 }, (_, i) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: `nine-${i}`, labels: { "kubernetes.io/service-name": "nine" } },
      addressType: "IPv4",
      ports: [{ name: "udp", protocol: "UDP", port: 9000 + i }],
      endpoints: [{ addresses: [formatAddress(address)], nodeName: "node1" }],
    }));
    for (let i = 0; i < 9; i++) on.prober.listen("udp", { namespace: on.near.namespace, address, port: 9000 + i });
    const text = slices.map((slice) => `---\n${JSON.stringify(slice)}\n`).join("");
    on.here.apply(serviceManifest("nine", [formatAddress(COUNTED)], []) + text);
    const to = { address: COUNTED, port: SERVICE_PORT };
    const list: Flow[] = Array.from({ length: 900 }, () => ({ protocol: "udp", from: on.client.namespace, to }));
    // A connection that draws no endpoint then gets none.
    const frontend = `{ ${formatAddress(COUNTED)} . udp . ${SERVICE_PORT} }`;
    const change = (verb: string, elements: string): string =>
      on.nodes.node1.node.exec("nft", [verb, "element", "inet", "drawbridge", "rest_service4", elements]);
    const rest = /\{ \S+ \. udp \. 80 : [^}]*\}/.exec(change("get", frontend))?.[0];
    assert.ok(rest !== undefined);
    change("delete", frontend);
    const others = (await on.prober.run(list)).filter(({ reached }) => !reached).length;
    change("add", rest);
    // The chance of sixteen draws without an endpoint is 900 times (7/16)^16, and this twice.
    assert.ok(others < 2, `${others} connections have drawn no endpoint`);
    const set = on.nodes.node1.node.exec("nft", ["list", "set", "inet", "drawbridge", "connections4"]);
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

  it("LB-02: the balancer's addresses come with the Service's status, change with it and go with it", async () => {
    const [first, second] = [on.flows(on.nodes.router, BALANCER), on.flows(on.nodes.router, EXTERNAL)];
    const apply = (addresses: Pair | undefined): void => {
      const ingress = addresses === undefined ? [] : textsOf(addresses).map((ip) => ({ ip }));
      const spec = { type: "LoadBalancer", status: { loadBalancer: { ingress } } };
      on.here.apply(serviceManifest("lb", texts, on.at(on.near), spec, NODE_PORT));
    };
    apply(undefined);
    await on.fail([...first, ...second]);
    apply(BALANCER);
    await on.reach(first, [on.near]);
    apply(EXTERNAL);
    await on.reach(second, [on.near]);
    await on.fail(first);
    apply(undefined);
    await on.fail([...first, ...second]);
  });

  it("SVC-20: a Service of every kind that is deleted leaves nothing in the tables", async () => {
    on.here.apply("");
    const before = on.here.elements();
    const ingress = textsOf(BALANCER).map((ip) => ({ ip }));
    const spec = {
      type: "LoadBalancer",
      externalIPs: textsOf(EXTERNAL),
      status: { loadBalancer: { ingress } },
      loadBalancerSourceRanges: ["192.0.2.0/24", "2001:db8::/32"],
      sessionAffinity: "ClientIP",
    };
    for (const policy of ["Cluster", "Local"]) {
      const policies = { externalTrafficPolicy: policy, internalTrafficPolicy: policy };
      for (const endpoints of [on.at(on.near, on.far), on.at(on.far), []]) {
        on.here.apply(serviceManifest("all", texts, endpoints, { ...spec, ...policies }, NODE_PORT));
        const during = on.here.elements();
        for (const text of ALL_TEXTS) assert.ok(during.includes(text), text);
        if (endpoints.length > 2) await on.prober.run(fromClient());
        on.here.apply("");
        assert.deepEqual(on.here.elements().split("\n"), before.split("\n"));
      }
    }
    await on.fail(fromClient());
  });

  it("EN-03: a Service ends when it becomes an ExternalName or headless, and begins again when it changes back", async () => {
    const proxied = serviceManifest("web", texts, on.at(on.near), {}, NODE_PORT);
    const named = serviceManifest("web", texts, on.at(on.near), { type: "ExternalName", externalName: "example.org" });
    const headless = serviceManifest("web", ["None"], on.at(on.near));
    on.here.apply("");
    const nothing = on.here.elements();
    for (const other of [named, headless]) {
      on.here.apply(proxied);
      await on.reach(fromClient(), [on.near]);
      on.here.apply(other);
      assert.equal(on.here.elements(), nothing);
      await on.fail(fromClient());
    }
    on.here.apply(proxied);
    await on.reach(fromClient(), [on.near]);
  });

  it("EPS-08: an endpoint in several slices counts once, and stays until the last of them has gone", async () => {
    const again = (name: string): string =>
      serviceManifest("web", texts, on.at(on.near)).replaceAll(/"name":"web-([46])"/g, `"name":"${name}-$1"`);
    const slicesOf = (text: string): string =>
      text
        .split("---")
        .filter((one) => one.includes("EndpointSlice"))
        .join("---");
    const both = serviceManifest("web", texts, on.at(on.near, on.far));
    on.here.apply(both);
    const once = on.here.elements();
    on.here.apply(`${both}---${slicesOf(again("copy"))}`);
    assert.equal(on.here.elements(), once, "an element for each place of a draw");
    await on.reachAll(fromClient(), [on.near, on.far]);
    on.here.apply(`${serviceManifest("web", texts, on.at(on.far))}---${slicesOf(again("copy"))}`);
    await on.reachAll(fromClient(), [on.near, on.far]);
    on.here.apply(serviceManifest("web", texts, on.at(on.far)));
    await on.reach(fromClient(), [on.far]);
  });

  it("EPS-14 SVC-22: a Service follows slices that come before it, change over to another Service, or go", async () => {
    const documents = (text: string): readonly string[] => text.split("---").filter((one) => one.trim() !== "");
    const [web = "", ...slices] = documents(serviceManifest("web", texts, on.at(on.near)));
    const [other = ""] = documents(serviceManifest("other", textsOf(PICKED), []));
    const relabelled = slices.map((one) => one.replace(`service-name":"web"`, `service-name":"other"`));
    on.here.apply(slices.join("---"));
    await on.fail(fromClient());
    on.here.apply([web, other, ...slices].join("---"));
    await on.reach(fromClient(), [on.near]);
    await on.refused(fromClient(PICKED));
    on.here.apply([web, other, ...relabelled].join("---"));
    await on.reach(fromClient(PICKED), [on.near]);
    await on.refused(fromClient());
    on.here.apply([web, other].join("---"));
    await on.refused([...fromClient(), ...fromClient(PICKED)]);
  });

  it("HINT-06 HINT-04: hints follow the node's own zone, and count for nothing while it has none", async () => {
    const hinted = (pod: ServicedPod, zone: string) =>
      on.at(pod).map((one) => ({ ...one, hints: { forZones: [{ name: zone }] } }));
    const service = serviceManifest("web", texts, [...hinted(on.near, "b"), ...hinted(on.far, "a")]);
    for (const [zone, pods] of [
      ["a", [on.far]],
      ["b", [on.near]],
      [undefined, [on.near, on.far]],
    ] as const) {
      on.here.apply(nodeManifest("node1", [], zone) + service);
      await on.reachAll(fromClient(), pods);
    }
  });

  it("DS-08 DS-06: a Service gets its second family, in either order, and loses it again", async () => {
    for (const family of FAMILIES) {
      const [first, second] = [family, family === 4 ? 6 : 4].map((one) =>
        fromClient().filter(({ to }) => to.address === CLUSTER_IPS[one === 4 ? 4 : 6]),
      );
      assert.ok(first !== undefined && second !== undefined);
      const single = [formatAddress(CLUSTER_IPS[family])];
      const double = family === 4 ? texts : texts.toReversed();
      for (const addresses of [single, double, single]) {
        on.here.apply(serviceManifest("web", addresses, on.at(on.near)));
        await on.reach(addresses === single ? first : [...first, ...second], [on.near]);
        if (addresses === single) await on.fail(second);
      }
    }
  });

  it("DS-02 DS-11 NODE-09 XIP-07: a Service of only IPv6 has all that one of IPv4 has, and nothing at an external IP of IPv4", async () => {
    const only = [formatAddress(CLUSTER_IPS[6])];
    const v6 = (flows: ReturnType<typeof fromClient>) => flows.filter(({ to }) => typeof to.address !== "number");
    const toCluster = [on.client.namespace, on.nodes.node1.node, on.nodes.router].flatMap((from) =>
      on.flows(from, CLUSTER_IPS),
    );
    const toPort = on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT });
    const sticky = { sessionAffinity: "ClientIP" };
    on.here.apply(serviceManifest("web", only, on.at(on.near, on.far), sticky, NODE_PORT));
    const first = await on.reach(v6(fromClient()), [on.near, on.far]);
    const next = await on.reach([...v6(fromClient()), ...v6(fromClient())], [on.near, on.far]);
    for (const { flow, seenBy } of next) {
      assert.equal(seenBy, first.find((one) => one.flow.protocol === flow.protocol)?.seenBy);
    }
    on.here.apply(serviceManifest("web", only, on.at(on.far), {}, NODE_PORT));
    await on.reach(v6(toPort), [on.far], on.addressesOf("node1"));
    await on.reach(v6(fromClient()), [on.far], on.client.addresses);
    on.here.apply(serviceManifest("web", only, on.at(on.near), { externalIPs: textsOf(EXTERNAL) }, NODE_PORT));
    const external = on.flows(on.client.namespace, EXTERNAL);
    await on.reach(v6(external), [on.near]);
    await on.fail(external.filter((flow) => !v6(external).includes(flow)));
    on.here.apply(serviceManifest("web", only, on.at(on.client), {}, NODE_PORT));
    await on.reach(v6(fromClient()), [on.client], on.gatewaysOf("node1"));
    on.here.apply(serviceManifest("web", only, [], {}, NODE_PORT));
    await on.refused([...v6(toCluster), ...v6(toPort)]);
    assert.doesNotMatch(on.here.elements(), /10\.96\.0\.10/);
  });
});
