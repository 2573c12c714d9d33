import assert from "node:assert/strict";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { Poller } from "../../lab/probe/poller.ts";
import { tcp } from "../../lab/probe/tcp.ts";
import { exchangeMore, startFlow } from "../../support/guard/live_flow.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type ManifestEndpoint, nodeManifest, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, FAMILIES, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const INTERNAL_LOCAL = { internalTrafficPolicy: "Local" };
const EXTERNAL_LOCAL = { externalTrafficPolicy: "Local" };
const ENDING = { ready: false, serving: true, terminating: true };
const ENDED = { ready: false, serving: false, terminating: true };
const LIVE_PORT = 7777;

/** Returns hints for one zone and one node. */
function hintedFor(zone: string, node?: string): Pick<ManifestEndpoint, "hints"> {
  return { hints: { forZones: [{ name: zone }], ...(node === undefined ? {} : { forNodes: [{ name: node }] }) } };
}

describe("the endpoints that packets go to", function () {
  this.timeout(60_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("policies", false);
    on.route([CLUSTER_IPS]);
  });

  after(() => on?.[Symbol.dispose]());

  const service = (endpoints: readonly ManifestEndpoint[], spec: Readonly<Record<string, unknown>> = {}): string =>
    serviceManifest("web", textsOf(CLUSTER_IPS), endpoints, spec, NODE_PORT);
  const node1 = (zone?: string): string => nodeManifest("node1", [], zone);
  const near = (fields: Partial<ManifestEndpoint> = {}) => on.at(on.near).map((one) => ({ ...one, ...fields }));
  const far = (fields: Partial<ManifestEndpoint> = {}) => on.at(on.far).map((one) => ({ ...one, ...fields }));
  const senders = () => [on.client.namespace, on.nodes.node1.node, on.nodes.router];
  const toCluster = () => senders().flatMap((from) => on.flows(from, CLUSTER_IPS));
  const fromOutside = () => on.flows(on.nodes.router, on.addressesOf("node1"), { port: NODE_PORT });

  it("ITP-01 ITP-02: with the internal policy Local the cluster IP has only this node's endpoints, or none", async () => {
    on.here.apply(service([...near(), ...far()], INTERNAL_LOCAL));
    await on.reach(toCluster(), [on.near]);
    on.here.apply(service(far(), INTERNAL_LOCAL));
    await on.silent(toCluster(), ServiceDropReason.NO_LOCAL);
    on.here.apply(service([], INTERNAL_LOCAL));
    await on.refused(toCluster());
  });

  it("ITP-03 ITP-04 ETP-07: the internal policy applies only to the cluster IP, the external one to all other frontends", async () => {
    const toPort = senders().flatMap((from) => on.flows(from, on.addressesOf("node1"), { port: NODE_PORT }));
    on.here.apply(service(far(), INTERNAL_LOCAL));
    await on.reach(toPort, [on.far]);
    on.here.apply(service(far(), EXTERNAL_LOCAL));
    await on.reach(toCluster(), [on.far]);
    await on.silent(fromOutside(), ServiceDropReason.NO_LOCAL);
    on.here.apply(service([...near(), ...far()], { ...INTERNAL_LOCAL, ...EXTERNAL_LOCAL }));
    await on.reach([...toCluster(), ...fromOutside()], [on.near]);
  });

  it("TERM-01: policy Local uses this node's terminating endpoint if none here is ready, until it stops serving", async () => {
    on.here.apply(service([...near({ conditions: ENDING }), ...far()], { ...EXTERNAL_LOCAL, ...INTERNAL_LOCAL }));
    await on.reach([...fromOutside(), ...toCluster()], [on.near]);
    const both = [...near({ conditions: ENDING }), ...on.at(on.client), ...far()];
    on.here.apply(service(both, { ...EXTERNAL_LOCAL, ...INTERNAL_LOCAL }));
    await on.reach([...fromOutside(), ...toCluster()], [on.client]);
    on.here.apply(service([...near({ conditions: ENDED }), ...far()], EXTERNAL_LOCAL));
    await on.silent(fromOutside(), ServiceDropReason.NO_LOCAL);
  });

  it("TERM-03: policy Cluster uses terminating endpoints when none is ready anywhere", async () => {
    on.here.apply(service([...near({ conditions: ENDING }), ...far()]));
    await on.reach(toCluster(), [on.far]);
    on.here.apply(service([...near({ conditions: ENDING }), ...far({ conditions: ENDING })]));
    await on.reachAll(toCluster(), [on.near, on.far]);
    on.here.apply(service([...near({ conditions: ENDED }), ...far({ conditions: ENDED })]));
    await on.refused(toCluster());
  });

  it("TERM-04: connections to an endpoint go on while it terminates, and after it has left the Service", async () => {
    const poller = new Poller(on.lab.calls);
    try {
      for (const { namespace, addresses } of [on.near, on.far]) {
        for (const family of FAMILIES)
          tcp.respond(poller, { namespace, address: addresses[family], port: LIVE_PORT }, () => {});
      }
      const live = (endpoints: readonly ManifestEndpoint[]): string =>
        service(endpoints).replaceAll(`"port":8080`, `"port":${LIVE_PORT}`);
      on.here.apply(live([...near(), ...far()]));
      const flows = [on.client.namespace, on.nodes.router].flatMap((from) =>
        FAMILIES.flatMap((family) =>
          Array.from({ length: 4 }, () =>
            startFlow(poller, "tcp", from, { address: CLUSTER_IPS[family], port: SERVICE_PORT }),
          ),
        ),
      );
      assert.deepEqual(await exchangeMore(poller, flows, 20), []);
      for (const endpoints of [
        [...near({ conditions: ENDING }), ...far({ conditions: ENDING })],
        [...near({ conditions: ENDED }), ...far({ conditions: ENDED }), ...on.at(on.client)],
        on.at(on.client),
        [],
      ]) {
        on.here.apply(live(endpoints));
        assert.deepEqual(await exchangeMore(poller, flows, 20), []);
      }
      on.here.apply("");
      assert.deepEqual(await exchangeMore(poller, flows, 20), []);
    } finally {
      poller.close();
    }
  });

  it("HINT-02 HINT-06: hints for zones apply to the nodes of those zones, and follow the node's own zone", async () => {
    const endpoints = [...near(hintedFor("b")), ...far(hintedFor("a"))];
    on.here.apply(node1("a") + service(endpoints));
    await on.reach(toCluster(), [on.far]);
    on.here.apply(node1("b") + service(endpoints));
    await on.reach(toCluster(), [on.near]);
  });

  it("HINT-03 HINT-04: all endpoints are used if a ready one has no hint, none has a hint for this zone, or the node has no zone", async () => {
    for (const [zone, endpoints] of [
      ["a", [...near(hintedFor("a")), ...far()]],
      ["a", [...near(hintedFor("b")), ...far(hintedFor("c"))]],
      [undefined, [...near(hintedFor("a")), ...far(hintedFor("b"))]],
    ] as const) {
      on.here.apply(node1(zone) + service(endpoints));
      await on.reachAll(toCluster(), [on.near, on.far]);
    }
    // An endpoint that is not ready does not count.
    const ended = on.at(on.client).map((one) => ({ ...one, conditions: ENDED }));
    on.here.apply(node1("a") + service([...near(hintedFor("a")), ...far(hintedFor("b")), ...ended]));
    await on.reach(toCluster(), [on.near]);
  });

  it("HINT-05: hints do not narrow this node's endpoints for a policy Local", async () => {
    const endpoints = [...near(hintedFor("b")), ...far(hintedFor("a"))];
    on.here.apply(node1("a") + service(endpoints, EXTERNAL_LOCAL));
    await on.reach(fromOutside(), [on.near]);
    await on.reach(toCluster(), [on.far]);
  });

  it("TD-01: hints for nodes go before hints for zones, on the same terms; trafficDistribution by itself changes nothing", async () => {
    const endpoints = (node: string) => [...near(hintedFor("b", node)), ...far(hintedFor("a", "node2"))];
    on.here.apply(node1("a") + service(endpoints("node1")));
    await on.reach(toCluster(), [on.near]);
    on.here.apply(node1("a") + service(endpoints("node3")));
    await on.reach(toCluster(), [on.far]);
    on.here.apply(node1("a") + service([...near(), ...far()], { trafficDistribution: "PreferSameNode" }));
    await on.reachAll(toCluster(), [on.near, on.far]);
  });
});
