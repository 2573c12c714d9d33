import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Packet } from "../../../../../objects/semantics/services/packet.ts";
import { evaluate } from "../../../../../objects/semantics/services/evaluate.ts";
import type { ServiceWorld } from "../../../../../objects/semantics/services/world.ts";
import { allowedOutcomes } from "../../../../support/evaluate/agreement.ts";
import { CompiledNode } from "../../../../support/services/compiled_world.ts";
import { compileAll, readScenario } from "../../../../support/services/scenario.ts";

const SPECIAL = ["127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "0.0.0.7"];

function manifest(clusterIPs: readonly string[]): string {
  const ports = [{ port: 80 }];
  const spec = { clusterIPs, ports, externalIPs: SPECIAL, type: "LoadBalancer" };
  const status = { loadBalancer: { ingress: [{ ip: "127.0.0.2" }] } };
  return JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { name: "web" }, spec, status });
}

describe("services/compile: addresses that no machine has", () => {
  it("BAD-01: impossible addresses of any field become no frontend, and each is reported", () => {
    const objects = readScenario(manifest(["10.96.0.1", "127.0.0.9"]));
    const [compiled] = compileAll(objects, "node1").values();
    assert.deepEqual(
      compiled?.problems,
      [
        "spec.clusterIPs: 127.0.0.9",
        ...SPECIAL.map((text) => `spec.externalIPs: ${text}`),
        "status.loadBalancer.ingress: 127.0.0.2",
      ].map((field) => `Service default/web: ${field}; expected an address that a machine can have`),
    );
    const addresses = new Set(compiled?.claims.map(({ element }) => element.key[0]));
    assert.deepEqual(addresses, new Set([parseAddress("10.96.0.1")]));
  });

  it("BAD-01 SVC-08: a loopback address as a cluster IP refuses none of the node's packets to itself", () => {
    const localhost = parseAddress("127.0.0.1");
    const world: ServiceWorld = {
      nodeName: "node1",
      services: readScenario(manifest(["127.0.0.1"])).filter((object) => object.kind === "Service"),
      endpointSlices: [],
      nodes: [],
      localPods: new Set(),
      nodeAddresses: new Set([localhost]),
      configuration: { nodePortAddresses: [], refuseExternalIps: false, tcpReset: false, clusterCidrs: [] },
    };
    for (const destinationPort of [80, 81]) {
      const packet: Packet = {
        entry: "node",
        protocol: "TCP",
        source: localhost,
        sourcePort: 40_000,
        destination: localhost,
        destinationPort,
      };
      assert.deepEqual(
        new CompiledNode(world).walk([packet], () => 0),
        ["pass"],
      );
      assert.deepEqual([...allowedOutcomes(evaluate(world, packet))], ["pass"]);
    }
  });
});
