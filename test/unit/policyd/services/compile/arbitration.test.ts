import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Service } from "../../../../../objects/model.ts";
import { FrontendHolders } from "../../../../../policyd/services/elements/arbitration.ts";
import type { CompileContext } from "../../../../../policyd/services/rules/context.ts";
import { compileAlone, readScenario } from "../../../../support/services/scenario.ts";

const NODE_ADDRESS = "10.240.0.5";
const OTHER_ADDRESS = "10.240.0.4";
/** A node on which nothing is protected. */
const protection: CompileContext["protection"] = {
  refusalOf: () => undefined,
  isProtectedAddress: () => false,
  isNodeAddress: (address) => [NODE_ADDRESS, OTHER_ADDRESS].some((one) => address === parseAddress(one)),
};
const context: CompileContext = {
  nodeName: "n1",
  zone: undefined,
  primaryAddresses: [],
  refuseExternalIps: false,
  protection,
};

/** The fields of a Service beside its name and address. */
interface Rest {
  readonly creationTimestamp?: unknown;
  readonly balancers?: readonly string[];
}

function service(
  name: string,
  clusterIP: string,
  externalIPs: readonly string[],
  nodePort?: number,
  { creationTimestamp, balancers = [] }: Rest = {},
): Service {
  const spec = { clusterIP, externalIPs, ports: [{ port: 80, nodePort }], type: nodePort ? "NodePort" : "ClusterIP" };
  const status = { loadBalancer: { ingress: balancers.map((ip) => ({ ip })) } };
  const metadata = { name, creationTimestamp };
  const [object] = readScenario(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata, spec, status }));
  assert.ok(object?.kind === "Service");
  return object;
}

describe("services/compile: a frontend that several Services claim", () => {
  it("CLAIM-05: a load balancer's address beats an external IP, the older of two external IPs wins, and a node port beats an external IP at a node's address and the node port of a Service with a later name", () => {
    const holdersOf = (...services: readonly Service[]): readonly string[] => {
      const holders = new FrontendHolders();
      for (const one of services) holders.replace(one.key, one, context);
      return services.flatMap((one) => compileAlone(one, [], context, holders).problems);
    };
    const newer = { creationTimestamp: "2026-01-01T00:00:00Z" };
    const older = { creationTimestamp: "2025-01-01T00:00:00Z" };
    const thief = service("a", "10.96.0.1", ["192.0.2.1"], undefined, newer);
    const lost = (address: string): readonly string[] => [
      `Service default/a: port : external TCP 80 is Service default/${address}'s`,
    ];
    assert.deepEqual(
      holdersOf(thief, service("b", "10.96.0.2", [], undefined, { balancers: ["192.0.2.1"] })),
      lost("b"),
    );
    assert.deepEqual(holdersOf(thief, service("b", "10.96.0.2", ["192.0.2.1"], undefined, older)), lost("b"));
    // A Service without a creation time counts as the youngest.
    for (const creationTimestamp of [undefined, null, "soon", 7]) {
      const file = service("a", "10.96.0.1", ["192.0.2.1"], undefined, { creationTimestamp });
      assert.deepEqual(holdersOf(file, service("b", "10.96.0.2", ["192.0.2.1"], undefined, newer)), lost("b"));
    }
    const atNode = service("a", "10.96.0.1", [NODE_ADDRESS], undefined, older);
    assert.deepEqual(holdersOf(atNode, service("b", "10.96.0.2", [], 80, newer)), lost("b"));
    assert.deepEqual(holdersOf(atNode, service("b", "10.96.0.2", [], 81, newer)), []);
    assert.deepEqual(holdersOf(thief, service("b", "10.96.0.2", [], 80, older)), []);
    assert.deepEqual(holdersOf(service("a", "10.96.0.1", [NODE_ADDRESS], 80, older)), []);
    const same = ["b", "c"].map((name, index) => service(name, `10.96.0.${index + 2}`, [], 30_001));
    assert.deepEqual(holdersOf(...same), ["Service default/c: port : node port TCP 30001 is Service default/b's"]);
  });

  it("a node port that comes, moves or goes concerns the Services that have an external IP at a node's address with its number", () => {
    const holders = new FrontendHolders();
    const replaced = (name: string, externalIPs: readonly string[], nodePort?: number): readonly string[] =>
      [...holders.replace(`default/${name}`, service(name, "10.96.0.1", externalIPs, nodePort), context)].sort();
    replaced("a", [NODE_ADDRESS, OTHER_ADDRESS]);
    replaced("b", [NODE_ADDRESS]);
    replaced("c", ["192.0.2.1"]);
    assert.deepEqual(replaced("d", [], 80), ["default/a"]);
    assert.deepEqual(replaced("a", [OTHER_ADDRESS]), ["default/b"]);
    assert.deepEqual(replaced("d", [], 81), ["default/a", "default/b"]);
    assert.deepEqual(replaced("d", [], 80), ["default/a", "default/b"]);
    assert.deepEqual([...holders.replace("default/d", undefined, context)].sort(), ["default/a", "default/b"]);
  });
});
