import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { keyText } from "../../../../../kernel/nftables/encode/element.ts";
import type { Service } from "../../../../../objects/model.ts";
import { FrontendHolders } from "../../../../../policyd/services/elements/arbitration.ts";
import type { CompileContext } from "../../../../../policyd/services/rules/context.ts";
import { compileAlone, readScenario } from "../../../../support/services/scenario.ts";

const ADDRESSES = ["10.96.0.1", "10.96.0.2"];
const NODE_ADDRESS = "10.240.0.5";
/** A node on which nothing is protected. */
const protection: CompileContext["protection"] = {
  refusalOf: () => undefined,
  isProtectedAddress: () => false,
  isNodeAddress: (address) => address === parseAddress(NODE_ADDRESS),
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

const changes = fc.array(
  fc.record({
    name: fc.constantFrom("a", "b", "c"),
    isGone: fc.constantFrom(false, false, true),
    clusterIP: fc.constantFrom(...ADDRESSES),
    externalIPs: fc.subarray([...ADDRESSES, NODE_ADDRESS]),
    balancers: fc.subarray(ADDRESSES),
    nodePort: fc.constantFrom(undefined, 30_001, 80),
    creationTimestamp: fc.constantFrom(undefined, "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
  }),
  { minLength: 1, maxLength: 8 },
);

/** The elements that each Service's claims have, as text. */
function held(services: ReadonlyMap<string, Service>, holders: FrontendHolders): ReadonlyMap<string, string> {
  return new Map(
    [...services].map(([key, one]) => [
      key,
      compileAlone(one, [], context, holders)
        .claims.map(({ set, element }) => `${set} ${keyText(element.key)}`)
        .join(", "),
    ]),
  );
}

describe("services/compile: a frontend that several Services claim", () => {
  it("a cluster IP comes before configured addresses, then the first name holds them, and the others report the holder", () => {
    const [a, b, c] = [
      service("a", "10.96.0.1", ["10.96.0.2"]),
      service("b", "10.96.0.2", ["192.0.2.1"], 30_001),
      service("c", "10.96.0.3", ["192.0.2.1"], 30_001),
    ];
    const holders = new FrontendHolders();
    for (const one of [c, b, a]) holders.replace(one.key, one, context);
    const [ofA, ofB, ofC] = [a, b, c].map((one) => compileAlone(one, [], context, holders).problems);
    assert.deepEqual(ofA, ["Service default/a: port : external TCP 80 is Service default/b's"]);
    assert.deepEqual(ofB, []);
    assert.deepEqual(ofC, [
      "Service default/c: port : external TCP 80 is Service default/b's",
      "Service default/c: port : node port TCP 30001 is Service default/b's",
    ]);
  });

  it("CLAIM-05: a balancer's address beats an external IP, the older of two wins, and a node port beats one at a node's address", () => {
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
  });

  it("each change returns all other Services whose elements it changes, and only the present Services decide", () => {
    fc.assert(
      fc.property(changes, (list) => {
        const services = new Map<string, Service>();
        const holders = new FrontendHolders();
        const hasNodeAddress = list.some(({ externalIPs }) => externalIPs.includes(NODE_ADDRESS));
        for (const { name, isGone, clusterIP, externalIPs, nodePort, ...rest } of list) {
          const one = service(name, clusterIP, externalIPs, nodePort, rest);
          const before = held(services, holders);
          if (isGone) services.delete(one.key);
          else services.set(one.key, one);
          const touched = holders.replace(one.key, isGone ? undefined : one, context);
          const after = held(services, holders);
          const changed = [...after.keys()].filter((key) => key !== one.key && before.get(key) !== after.get(key));
          assert.deepEqual(
            changed.filter((other) => !touched.has(other)),
            [],
          );
          // A change that removes a node port and adds an external IP may return a Service that does not change.
          if (!hasNodeAddress) assert.deepEqual([...touched].toSorted(), changed.toSorted());
        }
        const afresh = new FrontendHolders();
        for (const [key, one] of services) afresh.replace(key, one, context);
        assert.deepEqual(held(services, holders), held(services, afresh));
      }),
      { numRuns: 300 },
    );
  });
});
