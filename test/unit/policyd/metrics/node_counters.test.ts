import assert from "node:assert/strict";
import { FAMILIES, parseAddress } from "../../../../kernel/ip/address.ts";
import { tableChanges } from "../../../../kernel/nftables/encode/change.ts";
import type { CountedPort } from "../../../../policyd/metrics/endpoint_connections.ts";
import { NodeCounters } from "../../../../policyd/metrics/node_counters.ts";
import { ServiceMetrics } from "../../../../policyd/metrics/service_metrics.ts";
import { tunnelNodes } from "../../../../policyd/node/tables/tunnel_guard.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { INET_TABLE, joined } from "../../../../policyd/ruleset/table_part.ts";
import { connectionSet } from "../../../../policyd/services/rules/connection_counts.ts";
import { nameOf } from "../../../../policyd/services/rules/frontend_kind.ts";
import { portNumber } from "../../../../policyd/services/rules/priority_number.ts";
import { services as servicesParts } from "../../../../policyd/services/rules/services_part.ts";
import { serviceProxy } from "../../../support/services/proxy.ts";
import { FakeCounters } from "../../../support/nftables/fake/fake_counters.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { serviceManifest } from "../../../support/services/manifest.ts";
import { readScenario, SERVICE_RULES } from "../../../support/services/scenario.ts";

const TABLE = withVersion({ ...INET_TABLE, ...joined([tunnelNodes(), ...servicesParts(SERVICE_RULES)]) });
const CONNECTIONS = connectionSet(4);
const IDENTITY = 5;
const WEB: CountedPort = {
  service: { namespace: "default", name: "web" },
  port: { name: "http", protocol: "TCP" },
  identities: [IDENTITY],
  endpoints: ["10.0.0.1:8080"],
};

/** The counters of a kernel that has the table, with one Service. */
function setUp(hasEndpoints = true) {
  const kernel = new FakeNftables();
  kernel.commit(tableChanges(TABLE, new Map()));
  const counters = new FakeCounters(kernel);
  const seconds: number[] = [];
  let now = 0;
  const node = new NodeCounters({
    tables: [TABLE],
    counters,
    logger: recordingLogger(),
    hasEndpoints,
    onCommit: (duration) => seconds.push(duration),
    now: () => now,
  });
  node.claim("default/web", () => [WEB]);
  const totals = async (): Promise<Readonly<Record<string, number>>> => {
    await node.refresh(true);
    return Object.fromEntries([...node.series()].map(({ endpoint, connections }) => [endpoint, connections]));
  };
  const later = (milliseconds: number): void => {
    now += milliseconds;
  };
  return { kernel, counters, seconds, node, totals, later };
}

/** Counts new connections to the Service's endpoint. */
function connect(kernel: FakeNftables, packets: number): void {
  const key = [portNumber(IDENTITY, 0), parseAddress("10.0.0.1"), 8080];
  kernel.count(TABLE, CONNECTIONS, { key, timeout: 86_400_000 }, packets);
}

describe("policyd/metrics/node_counters", () => {
  it("a slow read is not repeated at once, and two simultaneous scrapes read once", async () => {
    const { kernel, totals, counters, later, node } = setUp();
    const elements = counters.elements.bind(counters);
    counters.elements = (of, set) => {
      if (set.name === CONNECTIONS) later(100);
      return elements(of, set);
    };
    await Promise.all([node.refresh(true), node.refresh(true)]);
    assert.equal(counters.lists, FAMILIES.length);
    connect(kernel, 1);
    later(899);
    assert.deepEqual(await totals(), { "10.0.0.1:8080": 0 });
    later(1);
    assert.deepEqual(await totals(), { "10.0.0.1:8080": 1 });
  });

  it("without endpoint metrics no elements are read, but drops and batches are reported", async () => {
    const { counters, totals, node, seconds } = setUp(false);
    const chain = nameOf("unserved", { family: 4, space: "service" });
    counters.count(counters.add({ chain, comment: "no endpoint on this node", verdict: { kind: "drop" } }), 4);
    node.committed([], 0.25);
    assert.deepEqual(await totals(), {});
    assert.equal(counters.lists, 0);
    assert.equal(node.drops().get("no endpoint on this node"), 4);
    assert.equal(node.drops().get("source not allowed by the Service"), 0);
    assert.deepEqual(seconds, [0.25]);
  });

  it("METRIC-02: Services without local endpoints are counted by policy, and endpoints with impossible addresses are counted", () => {
    const metrics = new ServiceMetrics({ claim: () => {} });
    const component = serviceProxy({
      nodeName: "node1",
      followers: [metrics],
    });
    const apply = (endpoints: readonly string[], spec: Readonly<Record<string, unknown>>, nodeName = "node1"): void => {
      const manifests = serviceManifest(
        "web",
        ["10.96.0.1"],
        endpoints.map((address) => ({ address: parseAddress(address), nodeName })),
        spec,
      );
      component.apply(
        readScenario(manifests).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })),
      );
    };
    const elsewhere = (spec: Readonly<Record<string, unknown>>): void => apply(["10.0.0.1"], spec, "node2");
    elsewhere({ internalTrafficPolicy: "Local" });
    assert.deepEqual(metrics.totals(), { ignoredEndpoints: 0, refused: 0, withoutLocal: { internal: 1, external: 0 } });
    elsewhere({ externalTrafficPolicy: "Local", externalIPs: ["198.51.100.7"] });
    assert.deepEqual(metrics.totals().withoutLocal, { internal: 0, external: 1 });
    elsewhere({ externalTrafficPolicy: "Local" });
    const none = { internal: 0, external: 0 };
    assert.deepEqual(metrics.totals().withoutLocal, none, "the Service has no address for clients from outside");
    apply([], { internalTrafficPolicy: "Local" });
    assert.deepEqual(metrics.totals().withoutLocal, none, "a Service without any endpoints is not counted");
    apply(["127.0.0.1", "169.254.1.1", "10.0.0.1"], {});
    assert.equal(metrics.totals().ignoredEndpoints, 2);
    component.apply([{ type: "delete", kind: "Service", key: "default/web" }]);
    assert.equal(metrics.totals().ignoredEndpoints, 0);
  });
});
