import assert from "node:assert/strict";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { INET_TABLE } from "../../../../policyd/ruleset/table_part.ts";
import { EventNode, TABLES_WITHOUT_RULES } from "../../../support/services/random_node.ts";
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
});
