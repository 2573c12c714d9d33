import { FAMILIES } from "../../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { FakeCounters } from "../../../support/nftables/fake/fake_counters.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { Scalar } from "../../../../kernel/nftables/model/data_type.ts";
import type { Element } from "../../../../kernel/nftables/model/object.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { NodeCounters } from "../../../../policyd/metrics/node_counters.ts";
import { observed } from "../../../../policyd/metrics/commit_observer.ts";
import { ServiceMetrics } from "../../../../policyd/metrics/service_metrics.ts";
import { tunnelNodes } from "../../../../policyd/node/tables/tunnel_guard.ts";
import { INET_TABLE, joined } from "../../../../policyd/ruleset/table_part.ts";
import { keptMap } from "../../../../policyd/services/rules/affinity_part.ts";
import { connectionSet } from "../../../../policyd/services/rules/connection_counts.ts";
import { RESTRICTED_PORTS } from "../../../../policyd/services/rules/frontend_sets.ts";
import { numberMap, plainMap } from "../../../../policyd/services/rules/number_maps.ts";
import { services as servicesParts } from "../../../../policyd/services/rules/services_part.ts";
import { ServiceProxy } from "../../../../policyd/services/service_proxy.ts";
import { readScenario, SERVICE_RULES } from "../../../support/services/scenario.ts";
import { FRONTEND_KINDS, nameOf } from "../../../../policyd/services/rules/frontend_kind.ts";

const PERIOD = 1000;

function web(endpoints: readonly string[], spec = "", name = "web", ip = "10.96.0.1"): string {
  const list = endpoints.map((address) => `{addresses: ["${address}"], nodeName: node1}`).join();
  return `---
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {type: ClusterIP, clusterIP: ${ip}, ports: [{name: http, port: 80}]${spec}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${name}-1, namespace: default, labels: {kubernetes.io/service-name: ${name}}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints: [${list}]
`;
}

function setUp(hasEndpoints = true) {
  const table = withVersion({ ...INET_TABLE, ...joined([tunnelNodes(), ...servicesParts(SERVICE_RULES)]) });
  const fake = new FakeNftables();
  const counters = new FakeCounters(fake);
  const clock = new FakeClock();
  const logger = recordingLogger();
  const seconds: number[] = [];
  let now = 0;
  const node = new NodeCounters({
    tables: [table],
    counters,
    logger,
    hasEndpoints,
    onCommit: (duration) => seconds.push(duration),
    now: () => now,
  });
  const kernel = observed(fake, node);
  const ruleset = new Ruleset({ kernel, clock, logger, tables: [table], minSyncPeriod: PERIOD, syncPeriod: 30_000 });
  ruleset.committed.subscribe(() => node.rulesInForce());
  const metrics = new ServiceMetrics(node);
  const component = new ServiceProxy({
    nodeName: "node1",
    ruleset,
    clock,
    nodePortAddresses: [],
    refuseExternalIps: false,
    observers: [metrics],
  });
  const apply = (text: string): void => {
    component.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  };
  /** The numbers that packets to an endpoint carry: its port's, and its own where clients stay with it. */
  const numbersOf = (address: number): ReadonlySet<number> => {
    const elementsOf = (names: readonly string[]): readonly Element[] =>
      table.sets.filter(({ name }) => names.includes(name)).flatMap((set) => fake.elements(table, set));
    const ports = elementsOf([plainMap(4), ...FRONTEND_KINDS.map(numberMap)]);
    const stayed = elementsOf(FRONTEND_KINDS.map(keptMap)).filter(({ data }) => datumOf(data) === address);
    const numbers = [...ports.map(({ data }) => datumOf(data)), ...stayed.map(({ key }) => key.at(-1))];
    return new Set(numbers.filter((number) => typeof number === "number"));
  };
  /** Counts new connections to an endpoint under each of its numbers. @returns the number of those numbers */
  const connect = (text: string, packets: number): number => {
    const address = addressNumber(text);
    const numbers = numbersOf(address);
    for (const number of numbers) {
      fake.count(table, connectionSet(4), { key: [number, address, 8080], timeout: 86_400_000 }, packets);
    }
    return numbers.size;
  };
  const totals = async (): Promise<Readonly<Record<string, number>>> => {
    await node.refresh(ruleset.isReconciled);
    return Object.fromEntries([...node.series()].map(({ endpoint, connections }) => [endpoint, connections]));
  };
  const later = (milliseconds: number): void => {
    now += milliseconds;
  };
  return {
    fake,
    counters,
    clock,
    logger,
    seconds,
    node,
    ruleset,
    metrics,
    component,
    apply,
    connect,
    totals,
    table,
    later,
  };
}

function datumOf(data: Element["data"]): Scalar | undefined {
  return data === undefined || "kind" in data ? undefined : data[0];
}

function addressNumber(text: string): number {
  return text.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
}

describe("policyd/metrics/node_counters", () => {
  it("METRIC-01 DP-07: a table that replaces one with another layout takes over no counters", async () => {
    const { apply, ruleset, connect, totals, fake, table, clock, logger } = setUp();
    apply(web(["10.0.0.1"]));
    ruleset.start();
    connect("10.0.0.1", 5);
    assert.deepEqual(await totals(), { "10.0.0.1:8080": 5 });
    ruleset.stop();
    const counted = table.sets.find(({ name }) => name === connectionSet(4));
    assert.ok(counted !== undefined && fake.elements(table, counted).length === 1);
    const part = joined([tunnelNodes(), ...servicesParts(SERVICE_RULES)]);
    const sets = part.sets.map((set) => (set.name === RESTRICTED_PORTS ? { ...set, size: 1000 } : set));
    const next = withVersion({ ...INET_TABLE, ...part, sets });
    const options = { kernel: fake, clock, logger, tables: [next], minSyncPeriod: PERIOD, syncPeriod: 30_000 };
    const successor = new Ruleset(options);
    successor.start();
    assert.equal(fake.table(next)?.comment, next.comment);
    assert.deepEqual(fake.elements(next, counted), []);
    successor.stop();
  });

  it("a slow read is not repeated at once, and two simultaneous scrapes read once", async () => {
    const { apply, ruleset, connect, totals, counters, later, node } = setUp();
    apply(web(["10.0.0.1"]));
    ruleset.start();
    const elements = counters.elements.bind(counters);
    counters.elements = (of, set) => {
      if (set.name === connectionSet(4)) later(100);
      return elements(of, set);
    };
    await Promise.all([node.refresh(ruleset.isReconciled), node.refresh(ruleset.isReconciled)]);
    assert.equal(counters.lists, FAMILIES.length);
    connect("10.0.0.1", 1);
    later(899);
    assert.deepEqual(await totals(), { "10.0.0.1:8080": 0 });
    later(1);
    assert.deepEqual(await totals(), { "10.0.0.1:8080": 1 });
  });

  it("without endpoint metrics no elements are read, but drops and batches are reported", async () => {
    const { apply, ruleset, counters, totals, node, seconds } = setUp(false);
    const chain = nameOf("unserved", { family: 4, space: "service" });
    counters.count(counters.add({ chain, comment: "no endpoint on this node", verdict: { kind: "drop" } }), 4);
    apply(web(["10.0.0.1"]));
    ruleset.start();
    assert.deepEqual(await totals(), {});
    assert.equal(counters.lists, 0);
    assert.equal(node.drops().get("no endpoint on this node"), 4);
    assert.equal(node.drops().get("source not allowed by the Service"), 0);
    assert.equal(seconds.length, 1);
  });

  it("METRIC-02: Services without local endpoints are counted by policy, and endpoints with impossible addresses are counted", () => {
    const { apply, metrics, component } = setUp();
    const elsewhere = (spec: string): string => web(["10.0.0.1"], spec).replace("nodeName: node1", "nodeName: node2");
    apply(elsewhere(", internalTrafficPolicy: Local"));
    assert.deepEqual(metrics.totals(), { ignoredEndpoints: 0, refused: 0, withoutLocal: { internal: 1, external: 0 } });
    apply(elsewhere(", externalTrafficPolicy: Local, externalIPs: [198.51.100.7]"));
    assert.deepEqual(metrics.totals().withoutLocal, { internal: 0, external: 1 });
    apply(elsewhere(", externalTrafficPolicy: Local"));
    assert.deepEqual(
      metrics.totals().withoutLocal,
      { internal: 0, external: 0 },
      "the Service has no address for clients from outside",
    );
    apply(web([], ", internalTrafficPolicy: Local"));
    assert.deepEqual(
      metrics.totals().withoutLocal,
      { internal: 0, external: 0 },
      "a Service without any endpoints is not counted",
    );
    apply(web(["127.0.0.1", "169.254.1.1", "10.0.0.1"]));
    assert.equal(metrics.totals().ignoredEndpoints, 2);
    component.apply([{ type: "delete", kind: "Service", key: "default/web" }]);
    assert.equal(metrics.totals().ignoredEndpoints, 0);
  });
});
