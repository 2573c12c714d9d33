import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { CompileContext } from "../../../../../policyd/services/rules/context.ts";
import { type PortEndpoint, portEndpoints, slicePorts } from "../../../../../policyd/services/elements/endpoints.ts";
import { select } from "../../../../../policyd/services/elements/selection.ts";
import { readScenario } from "../../../../support/services/scenario.ts";

const context: CompileContext = {
  nodeName: "node1",
  zone: "zone-a",
  primaryAddresses: [],
  refuseExternalIps: false,
};

/** Endpoints with the addresses 10.0.0.1 and so on. */
function endpoints(...parts: readonly Partial<PortEndpoint>[]): readonly PortEndpoint[] {
  return parts.map((part, i) => ({
    address: parseAddress(`10.0.0.${i + 1}`),
    port: 80,
    state: "ready",
    isLocal: false,
    zoneHints: [],
    nodeHints: [],
    ...part,
  }));
}

/** The numbers of the endpoints that are used. */
function chosen(usable: readonly PortEndpoint[], on = context): { all: number[]; local: number[] } {
  const { all, local } = select(usable, on);
  const numbers = (list: readonly PortEndpoint[]): number[] => list.map((one) => usable.indexOf(one) + 1);
  return { all: numbers(all), local: numbers(local) };
}

const terminating = { state: "terminating" } as const;
const here = { isLocal: true } as const;
const zoneA = { zoneHints: ["zone-a"] } as const;
const zoneB = { zoneHints: ["zone-b"] } as const;

describe("services/compile: the selection of endpoints", () => {
  it("SVC-10 TERM-01 TERM-03: terminating endpoints are used only without others, separately for the cluster and the node", () => {
    assert.deepEqual(chosen(endpoints({}, terminating, here)), { all: [1, 3], local: [3] });
    assert.deepEqual(chosen(endpoints({}, { ...terminating, ...here })), { all: [1], local: [2] });
    assert.deepEqual(chosen(endpoints(terminating, { ...terminating, ...here })), { all: [1, 2], local: [2] });
  });

  it("HINT-02 HINT-05: hints for this zone narrow the cluster's endpoints, not the node's", () => {
    assert.deepEqual(chosen(endpoints(zoneA, zoneB, { ...zoneB, ...here })), { all: [1], local: [3] });
  });

  it("HINT-03: all endpoints are used if one ready endpoint has no hint", () => {
    assert.deepEqual(chosen(endpoints(zoneA, zoneB, {})).all, [1, 2, 3]);
    assert.deepEqual(chosen(endpoints(zoneA, zoneB, terminating)).all, [1]);
  });

  it("HINT-04: all endpoints are used if none is for this zone or the node has no zone", () => {
    assert.deepEqual(chosen(endpoints(zoneB, zoneB)).all, [1, 2]);
    assert.deepEqual(chosen(endpoints(zoneA, zoneB), { ...context, zone: undefined }).all, [1, 2]);
  });

  it("TD-01: hints for nodes come before hints for zones, under the same conditions", () => {
    const node1 = { nodeHints: ["node1"] };
    const node2 = { nodeHints: ["node2"] };
    assert.deepEqual(chosen(endpoints({ ...zoneA, ...node2 }, { ...zoneB, ...node1 })).all, [2]);
    assert.deepEqual(chosen(endpoints({ ...zoneA, ...node2 }, { ...zoneB })).all, [1]);
    assert.deepEqual(chosen(endpoints({ ...zoneA, ...node2 }, { ...zoneB, ...node2 })).all, [1]);
  });

  it("EPS-04 EPS-05 EPS-06 EPS-08: an endpoint's state comes from its conditions, and the better one of two slices counts", () => {
    const slice = (name: string, entry: string): string => `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 80 }]
endpoints: [${entry}]
`;
    const states = (...entries: readonly string[]): readonly unknown[] => {
      const slices = readScenario(entries.map((entry, i) => slice(`s${i}`, entry)).join("")).filter(
        (object) => object.kind === "EndpointSlice",
      );
      const [web, port] = [{ name: "web", namespace: "default" }, { name: "", protocol: "TCP" } as const];
      return portEndpoints(slicePorts(slices, web), port, 4, context).usable.map(({ state, isLocal }) => [
        state,
        isLocal,
      ]);
    };
    const conditions = (text: string): string => `{ addresses: [10.0.0.1], nodeName: node1, conditions: { ${text} } }`;
    assert.deepEqual(states("{ addresses: [10.0.0.1] }"), [["ready", false]]);
    assert.deepEqual(states(conditions("ready: true, terminating: true")), [["ready", true]]);
    assert.deepEqual(states(conditions("ready: false, serving: true, terminating: true")), [["terminating", true]]);
    assert.deepEqual(states(conditions("ready: false, serving: true")), []);
    assert.deepEqual(states(conditions("ready: false, serving: false, terminating: true")), []);
    const both = [conditions("ready: false, serving: true, terminating: true"), "{ addresses: [10.0.0.1] }"];
    assert.deepEqual(states(...both), [["ready", true]]);
    assert.deepEqual(states(...both.toReversed()), [["ready", true]]);
  });
});
