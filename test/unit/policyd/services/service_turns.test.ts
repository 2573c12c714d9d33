import assert from "node:assert/strict";
import type { Commit } from "../../../../policyd/ruleset/difference.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { Signal } from "../../../../policyd/lib/signal.ts";
import { serviceProxy } from "../../../support/services/proxy.ts";
import { ServiceTurns } from "../../../../policyd/services/service_turns.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { INET_TABLE } from "../../../../policyd/ruleset/table_part.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { ClusterState, EventNode, TABLES_WITHOUT_RULES } from "../../../support/services/random_node.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const SHORT = { milliseconds: Number.POSITIVE_INFINITY, elements: 20, large: 10 };
const MAPS = TABLES_WITHOUT_RULES.flatMap(({ sets }) => sets).filter(({ name }) => /^service4_[23]$/.test(name));

const ENDPOINTS = [1, 2, 3];
const endpointsOf = (id: number): number => (id === 1 ? 3 : 2);

/** A Service with endpoints in 10.244.ID.0/24, and its slice. */
function objects(id: number, ports: number, spec: object = {}, creationTimestamp = "2026-01-01T00:00:00Z") {
  const [namespace, name] = [`tenant${id}`, "web"];
  const list = Array.from({ length: ports }, (_, i) => ({ name: `p${i}`, protocol: "TCP", port: 1000 + i }));
  // Two Services work through their ports in opposite directions.
  if (id === 2) list.reverse();
  const clusterIP = `10.96.${id}.1`;
  const of = { ...spec, clusterIP, clusterIPs: [clusterIP], ports: list };
  const service = { apiVersion: "v1", kind: "Service", metadata: { name, namespace, creationTimestamp }, spec: of };
  const labels = { "kubernetes.io/service-name": name };
  const addresses = ENDPOINTS.slice(0, endpointsOf(id)).map((last) => ({ addresses: [`10.244.${id}.${last}`] }));
  const slice = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", metadata: { name, namespace, labels } };
  const whole = { ...slice, addressType: "IPv4", ports: list, endpoints: addresses };
  return readScenario([service, whole].map((object) => `---\n${JSON.stringify(object)}\n`).join(""));
}

function setUp() {
  const kernel = new FakeNftables();
  const clock = new FakeClock();
  const node = new EventNode(kernel, clock, TABLES_WITHOUT_RULES, [], SHORT);
  clock.pass(0);
  const apply = (...args: Parameters<typeof objects>): void => {
    for (const object of objects(...args)) {
      node.apply({ type: "object", change: { type: "set", kind: object.kind, key: object.key, object } });
    }
  };
  const remove = (id: number): void =>
    node.apply({ type: "object", change: { type: "delete", kind: "Service", key: `tenant${id}/web` } });
  const seen: ReturnType<typeof portsOf>[] = [];
  const commit = kernel.commit.bind(kernel);
  kernel.commit = (changes) => {
    commit(changes);
    seen.push(portsOf(kernel));
  };
  /** Returns the Services that have the ports of an address, after each batch until all work is done. */
  const holders = (address: string): readonly (readonly number[])[] => {
    seen.length = 0;
    clock.pass(0);
    return seen.map((ports) => ports.filter((one) => one.address === parseAddress(address)).map(({ id }) => id));
  };
  return { apply, remove, holders };
}

/** The ports in force and their Services, each of which leads to all endpoints of one Service. */
function portsOf(kernel: FakeNftables): readonly { readonly address: unknown; readonly id: number }[] {
  const elements = MAPS.flatMap((map) => kernel.elements(INET_TABLE, map));
  return [...Map.groupBy(elements, ({ key }) => keyText(key.slice(0, 3)))].map(([port, all]) => {
    const ids = new Set(all.map(({ data }) => (Number(Array.isArray(data) ? data[0] : 0) >> 8) & 255));
    const [id = 0] = ids;
    assert.deepEqual([all.length, ids.size], [endpointsOf(id), 1], `${port} leads to the endpoints of one Service`);
    return { address: all[0]?.key[0], id };
  });
}

describe("policyd/services: turns", () => {
  it("SHARE-10: a Service of one port is in force while a Service of 100 ports of another namespace has only begun", () => {
    const { apply, holders } = setUp();
    apply(1, 100);
    apply(2, 1);
    const begun = holders("10.96.1.1").map(({ length }) => length);
    assert.equal(begun.at(-1), 100);
    const increases = begun.map((ports, turn) => ports - (begun[turn - 1] ?? 0));
    assert.ok(Math.max(...increases) <= 5, `a turn has 20 elements: ${begun.join()}`);
    apply(1, 100, { externalIPs: ["198.51.100.7"] });
    apply(2, 2);
    const turns = holders("10.96.2.1").map(({ length }) => length);
    assert.ok(turns.length > 5 && turns.indexOf(2) < 4, `in force after ${turns.join()}`);
  });

  it("SYNC-04: a Service that its own last step enqueues in another version is compiled again", () => {
    let runs = 0;
    const begin = function* (key: string) {
      runs++;
      yield;
      if (runs === 1) turns.add(key, "later");
    };
    const turns: ServiceTurns = new ServiceTurns({ clock: new FakeClock() }, begin, () => {});
    turns.add("a/b", "first");
    turns.work();
    assert.deepEqual([runs, turns.size], [2, 0]);
  });

  for (const [what, externalIPs, nodePort] of [
    ["at a Node's address, behind a node port,", ["192.0.2.2"], 31000],
    ["in a Node's pod CIDR", ["10.244.2.7"], undefined],
  ] as const) {
    it(`DP-11 CLAIM-05: an external IP ${what} is served as after a fresh start when the Node goes while the work waits`, () => {
      const clock = new FakeClock();
      const node = new EventNode(new FakeNftables(), clock, TABLES_WITHOUT_RULES, [], SHORT);
      const known = new ClusterState();
      const apply = (...changes: readonly ObjectChange[]): void => {
        for (const change of changes) for (const one of [known, node]) one.apply({ type: "object", change });
      };
      const set = (kind: string, name: string, spec: object, rest: object = {}): ObjectChange => {
        const creationTimestamp = `2026-01-0${name === "b" ? 2 : 1}T00:00:00Z`;
        const object = { apiVersion: "v1", kind, metadata: { name, creationTimestamp }, spec, ...rest };
        const [read = assert.fail()] = readScenario(JSON.stringify(object));
        return { type: "set", kind: read.kind, key: read.key, object: read };
      };
      const assertFresh = (): void => {
        clock.pass(0);
        const fresh = new EventNode(new FakeNftables(), new FakeClock(), TABLES_WITHOUT_RULES, known.events());
        fresh.settle(0);
        assert.deepEqual(node.content(), fresh.content());
      };
      const status = { addresses: [{ type: "InternalIP", address: "192.0.2.2" }] };
      apply(set("Node", "n2", { podCIDRs: ["10.244.2.0/24"] }, { status }));
      clock.pass(0);
      const ports = Array.from({ length: 100 }, (_, i) => ({ name: `p${i}`, port: i + 1 }));
      const own = { type: "NodePort", clusterIP: "10.96.0.2", ports: [{ port: 80, nodePort }] };
      apply(
        set("Service", "large", { clusterIP: "10.96.0.9", ports }),
        set("Service", "c", { clusterIP: "10.96.0.1", externalIPs, ports: [{ port: nodePort ?? 80 }] }),
        set("Service", "b", own),
        { type: "delete", kind: "Node", key: "n2" },
      );
      assertFresh();
      apply(set("Service", "b", { ...own, externalIPs }));
      assertFresh();
    });
  }

  it("SHARE-09: a Service that was compiled while another one had room reserved that it did not need gets that room", () => {
    const claims = new Map<string, readonly DesiredElement[]>();
    const committed = new Signal<Commit>();
    const clock = new FakeClock();
    const proxy = serviceProxy({
      ruleset: { claim: (owner, all) => void claims.set(owner, all), committed },
      clock,
      bounds: { share: 40, pool: 400 },
      turn: { ...SHORT, large: 100 },
    });
    const apply = (name: string, ports: number, slicePorts: number, endpoints: number, isThere = false): void => {
      const list = (count: number) => Array.from({ length: count }, (_, i) => ({ name: `p${i}`, port: 80 + i }));
      const clusterIP = `10.96.0.${name.length}`;
      const metadata = { name, namespace: name, labels: { "kubernetes.io/service-name": name } };
      const addresses = Array.from({ length: endpoints }, (_, i) => ({
        addresses: [`10.244.${name.length}.${i + 1}`],
      }));
      const spec = { clusterIP, clusterIPs: [clusterIP], ports: list(ports) };
      const service = { apiVersion: "v1", kind: "Service", metadata, spec };
      const slice = { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", metadata, addressType: "IPv4" };
      const whole = {
        ...slice,
        ports: list(slicePorts).map((port, i) => (i < 2 ? port : { ...port, name: `x${i}` })),
        endpoints: addresses,
      };
      const texts = (isThere ? [whole] : [service, whole]).map((object) => `---\n${JSON.stringify(object)}\n`);
      proxy.apply(
        readScenario(texts.join("")).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })),
      );
    };
    const settle = (): void => {
      for (let i = 0; i < 60; i++) {
        committed.emit({ isWhole: false, differences: [] });
        clock.pass(1);
      }
    };
    proxy.synced();
    // Of the 20 ports of its slice the Service has two, so it needs an eighth of what is reserved.
    apply("a", 6, 20, 20);
    settle();
    for (const endpoints of [19, 20]) apply("a", 6, 20, endpoints, true);
    apply("bb", 1, 1, 60);
    settle();
    assert.deepEqual(proxy.problems(), []);
  });
});
