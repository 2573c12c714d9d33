import assert from "node:assert/strict";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { requireKernel } from "../../support/privilege.ts";
import { serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, FAMILIES, pairOf, textsOf, TRANSPORTS, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const BALANCER = pairOf("203.0.113.5", "2001:db8:5::5");
const EXTERNAL = pairOf("198.51.100.7", "2001:db8:7::7");
/** Addresses in no range of the cluster. */
const PICKED = pairOf("198.18.77.3", "2001:db8:77::3");
const ALL_TEXTS = [CLUSTER_IPS, BALANCER, EXTERNAL].flatMap((pair) => textsOf(pair));

describe("Services that change while they are in use", function () {
  this.timeout(60_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("changes", false);
    on.route([CLUSTER_IPS, PICKED]);
  });

  after(() => on?.[Symbol.dispose]());

  const fromClient = (pair = CLUSTER_IPS) => on.flows(on.client.namespace, pair);
  const texts = textsOf(CLUSTER_IPS);

  it("SVC-19 SVC-22: every pod and every node reaches a Service, whatever address it asked for", async () => {
    for (const pair of [CLUSTER_IPS, PICKED]) {
      const manifest = serviceManifest("web", textsOf(pair), on.at(on.near, on.far));
      for (const node of [on.here, on.there]) node.apply(manifest);
      const { node1, node2 } = on.nodes;
      const senders = [on.client.namespace, on.near.namespace, on.far.namespace, node1.node, node2.node];
      await on.reachAll(
        senders.flatMap((from) => on.flows(from, pair)),
        [on.near, on.far],
      );
    }
    on.there.apply("");
  });

  it("SVC-28: a program on a node, such as the API server, is an endpoint for all clients", async () => {
    const { node1, node2 } = on.nodes;
    for (const name of ["node1", "node2"] as const) {
      const { node } = on.nodes[name];
      const addresses = on.addressesOf(name);
      for (const family of FAMILIES) {
        for (const transport of TRANSPORTS) {
          on.prober.listen(transport, { namespace: node, address: addresses[family], port: TARGET_PORT });
        }
      }
      const endpoints = FAMILIES.map((family) => ({ address: addresses[family], nodeName: name }));
      const manifest = serviceManifest("kubernetes", texts, endpoints);
      for (const serviced of [on.here, on.there]) serviced.apply(manifest);
      const senders = [on.client.namespace, on.far.namespace, node1.node, node2.node];
      await on.reach(
        senders.flatMap((from) => on.flows(from, CLUSTER_IPS)),
        [{ namespace: node }],
      );
      await on.reach(on.flows(on.client.namespace, CLUSTER_IPS), [{ namespace: node }], on.client.addresses);
    }
    on.there.apply("");
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

  it("EPS-14: a Service follows slices that come before it, change over to another Service, or go", async () => {
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

  it("DS-02 DS-11: a Service of only IPv6 has all that one of IPv4 has", async () => {
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
    on.here.apply(serviceManifest("web", only, on.at(on.client), {}, NODE_PORT));
    await on.reach(v6(fromClient()), [on.client], on.gatewaysOf("node1"));
    on.here.apply(serviceManifest("web", only, [], {}, NODE_PORT));
    await on.refused([...v6(toCluster), ...v6(toPort)]);
    assert.doesNotMatch(on.here.elements(), /10\.96\.0\.10/);
  });
});
