import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { ObjectChange } from "../../../../../objects/model.ts";
import { ServicePorts } from "../../../../../policyd/node/masquerade/service_ports.ts";
import { readScenario } from "../../../../support/services/scenario.ts";

const OWN = parseAddress("192.0.2.1");

function set(key: string, spec: object): ObjectChange {
  const [namespace, name] = key.split("/");
  const text = JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { name, namespace }, spec });
  const [object] = readScenario(text);
  return object === undefined ? assert.fail() : { type: "set", kind: object.kind, key: object.key, object };
}

const numbered = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `p${i}`, port: first + i }));

describe("policyd/node: ports of Services", () => {
  it("GUARD-12: node ports and ports of own addresses count once, until their Service goes; others change nothing", () => {
    const ports = new ServicePorts();
    const at = (): readonly number[] => ports.at(new Set([OWN])).map(({ first }) => first);
    const outside = { clusterIPs: ["10.96.0.1"], externalIPs: ["198.51.100.1", "192.0.2.1"] };
    const both = { ...outside, type: "NodePort", ports: [{ port: 2000, nodePort: 2001 }] };
    assert.ok(
      ports.apply([set("n/a", both), set("n/b", { ...outside, ports: [{ port: 2000 }, { name: "s", port: 80 }] })]),
    );
    assert.deepEqual(at(), [2001, 2000]);
    assert.ok(
      !ports.apply([
        set("n/c", { type: "NodePort", clusterIPs: ["10.96.0.2"], ports: [{ port: 2002, nodePort: 30_001 }] }),
      ]),
    );
    assert.ok(
      !ports.apply([
        { type: "delete", kind: "Service", key: "n/c" },
        { type: "delete", kind: "Pod", key: "n/a" },
      ]),
    );
    assert.ok(ports.apply([{ type: "delete", kind: "Service", key: "n/a" }]));
    assert.deepEqual(at(), [2000]);
    assert.ok(ports.apply([set("n/b", { clusterIPs: ["10.96.0.1"], ports: [{ port: 2000 }] })]));
    assert.deepEqual(at(), []);
  });

  it("GUARD-12: a namespace has its share however many Services another one has, and a port of both counts once", () => {
    const ports = new ServicePorts();
    const outside = { clusterIPs: ["10.96.0.1"], externalIPs: ["192.0.2.1"] };
    const many = [0, 1].map((i) => set(`evil/s${i}`, { ...outside, ports: numbered(10_000 + 2000 * i, 2000) }));
    ports.apply([...many, set("n/a", { ...outside, ports: [{ name: "x", port: 10_000 }, ...numbered(20_000, 20)] })]);
    const all = ports.at(new Set([OWN])).map(({ first }) => first);
    assert.deepEqual([all.length, all.filter((port) => port >= 20_000).length], [1024, 16]);
  });

  it("GUARD-12: all namespaces together have 1,024 ports at most, 16 of each that came first", () => {
    const ports = new ServicePorts();
    const outside = { clusterIPs: ["10.96.0.1"], externalIPs: ["192.0.2.1"] };
    for (let i = 0; i < 100; i++) ports.apply([set(`n${i}/s`, { ...outside, ports: numbered(5000 + 20 * i, 20) })]);
    const all = ports.at(new Set([OWN])).map(({ first }) => first);
    const expected = Array.from({ length: 1024 }, (_, i) => 5000 + 20 * Math.floor(i / 16) + (i % 16));
    assert.deepEqual(all, expected);
  });
});
