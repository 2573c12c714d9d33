import assert from "node:assert/strict";
import type { ClusterObject, Kind } from "../../../../../objects/model.ts";
import { ServiceIndex } from "../../../../../policyd/services/elements/service_index.ts";
import { readScenario } from "../../../../support/services/scenario.ts";

function parse(text: string): ClusterObject {
  const [object] = readScenario(text);
  assert.ok(object !== undefined);
  return object;
}

function slice(name: string, serviceName: string, extra = ""): ClusterObject {
  return parse(`{ apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{ port: 80 }],
    metadata: { name: ${name}, labels: { kubernetes.io/service-name: ${serviceName} } },
    endpoints: [{ addresses: [10.0.0.1]${extra} }] }`);
}

function service(name: string, extra = ""): ClusterObject {
  return parse(`{ apiVersion: v1, kind: Service, metadata: { name: ${name} },
    spec: { clusterIP: 10.96.0.1, ports: [{ port: 80 }]${extra} } }`);
}

function node(zone: string, address = "192.0.2.1", name = "node1", podCidr = "10.244.1.0/24"): ClusterObject {
  return parse(`{ apiVersion: v1, kind: Node, metadata: { name: ${name}, labels: { topology.kubernetes.io/zone: "${zone}" } },
    spec: { podCIDRs: [${podCidr}] }, status: { addresses: [{ type: InternalIP, address: ${address} }] } }`);
}

describe("services/compile: the Services that a change touches", () => {
  let index: ServiceIndex;
  const set = (...objects: readonly ClusterObject[]) =>
    index.apply(objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  const remove = (kind: Kind, key: string) => index.apply([{ type: "delete", kind, key }]);

  beforeEach(() => {
    index = new ServiceIndex("node1");
    set(
      node("zone-a"),
      service("plain"),
      service("ranged", ', type: LoadBalancer, loadBalancerSourceRanges: ["192.0.2.0/24"]'),
      slice("plain-1", "plain"),
      slice("plain-2", "plain"),
      slice("hinted-1", "hinted", ", hints: { forZones: [{ name: zone-a }] }"),
    );
  });

  it("SYNC-04: a Service touches itself, also when it goes", () => {
    assert.deepEqual([...set(service("plain")).services], ["default/plain"]);
    assert.deepEqual([...remove("Service", "default/plain").services], ["default/plain"]);
    assert.equal(index.service("default/plain"), undefined);
  });

  it("HINT-06: the node's zone touches only Services with hints, and its address only those with source ranges", () => {
    const zoned = set(node("zone-b"));
    assert.deepEqual([[...zoned.services], zoned.hasNodeChanged], [["default/hinted"], true]);
    const moved = set(node("zone-b", "192.0.2.9"));
    assert.deepEqual([[...moved.services], moved.hasNodeChanged], [["default/ranged"], true]);
    const same = set(node("zone-b", "192.0.2.9"));
    assert.deepEqual([same.services.size, same.hasNodeChanged], [0, false]);
  });
});
