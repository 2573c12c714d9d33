import assert from "node:assert/strict";
import * as fc from "fast-check";
import { keyText } from "../../../../../kernel/nftables/element.ts";
import type { Service } from "../../../../../policyd/cluster/model.ts";
import { FrontendHolders } from "../../../../../policyd/services/compile/arbitration.ts";
import { compileService } from "../../../../../policyd/services/compile/compile_service.ts";
import type { CompileContext } from "../../../../../policyd/services/compile/context.ts";
import { readScenario } from "../../../../support/services/scenario.ts";

const context: CompileContext = { nodeName: "n1", zone: undefined, primaryAddresses: [], refuseExternalIps: false };
const ADDRESSES = ["10.96.0.1", "10.96.0.2"];

function service(name: string, clusterIP: string, externalIPs: readonly string[], nodePort?: number): Service {
  const spec = { clusterIP, externalIPs, ports: [{ port: 80, nodePort }], type: nodePort ? "NodePort" : "ClusterIP" };
  const [object] = readScenario(JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { name }, spec }));
  assert.ok(object?.kind === "Service");
  return object;
}

const changes = fc.array(
  fc.record({
    name: fc.constantFrom("a", "b", "c"),
    isGone: fc.constantFrom(false, false, true),
    clusterIP: fc.constantFrom(...ADDRESSES),
    externalIPs: fc.subarray(ADDRESSES),
    nodePort: fc.constantFrom(undefined, 30_001),
  }),
  { minLength: 1, maxLength: 8 },
);

/** What each Service has elements for, in the words of its claims. */
function held(services: ReadonlyMap<string, Service>, holders: FrontendHolders): ReadonlyMap<string, string> {
  return new Map(
    [...services].map(([key, one]) => [
      key,
      compileService(one, [], context, holders)
        .claims.map(({ set, element }) => `${set} ${keyText(element.key)}`)
        .join(", "),
    ]),
  );
}

describe("services/compile: a frontend that several Services claim", () => {
  it("a cluster IP beats what people wrote, then the first name has it, and the others say whose it is", () => {
    const [a, b, c] = [
      service("a", "10.96.0.1", ["10.96.0.2"]),
      service("b", "10.96.0.2", ["192.0.2.1"], 30_001),
      service("c", "10.96.0.3", ["192.0.2.1"], 30_001),
    ];
    const holders = new FrontendHolders();
    for (const one of [c, b, a]) holders.replace(one.key, one, context);
    const [ofA, ofB, ofC] = [a, b, c].map((one) => compileService(one, [], context, holders).problems);
    assert.deepEqual(ofA, ["Service default/a: port : external TCP 80 is Service default/b's"]);
    assert.deepEqual(ofB, []);
    assert.deepEqual(ofC, [
      "Service default/c: port : external TCP 80 is Service default/b's",
      "Service default/c: port : node port TCP 30001 is Service default/b's",
    ]);
  });

  it("each change names all others whose elements it changes, and what was before decides nothing", () => {
    fc.assert(
      fc.property(changes, (list) => {
        const services = new Map<string, Service>();
        const holders = new FrontendHolders();
        for (const { name, isGone, clusterIP, externalIPs, nodePort } of list) {
          const one = service(name, clusterIP, externalIPs, nodePort);
          const before = held(services, holders);
          if (isGone) services.delete(one.key);
          else services.set(one.key, one);
          const touched = holders.replace(one.key, isGone ? undefined : one, context);
          const after = held(services, holders);
          const changed = [...after.keys()].filter((key) => key !== one.key && before.get(key) !== after.get(key));
          assert.deepEqual([...touched].toSorted(), changed.toSorted());
        }
        const afresh = new FrontendHolders();
        for (const [key, one] of services) afresh.replace(key, one, context);
        assert.deepEqual(held(services, holders), held(services, afresh));
      }),
      { numRuns: 300 },
    );
  });
});
