import { atOnce } from "../../../../../policyd/lib/sliced_work.ts";
import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice, Service } from "../../../../../objects/model.ts";
import { FrontendHolders } from "../../../../../policyd/services/elements/arbitration.ts";
import type { CompileContext } from "../../../../../policyd/services/rules/context.ts";
import { isSpecial, portEndpoints, slicePorts } from "../../../../../policyd/services/elements/endpoints.ts";
import { healthCheckOf } from "../../../../../policyd/services/health_check/health_check.ts";
import { servedFrontends } from "../../../../../policyd/services/stale_flows/served_frontends.ts";
import { compileAlone, readScenario } from "../../../../support/services/scenario.ts";

const context: CompileContext = { nodeName: "n1", zone: undefined, primaryAddresses: [], refuseExternalIps: false };

/** A Service with these ports, and slices that list them with their own numbers. */
function scenario(ports: readonly object[], ...slices: readonly (readonly object[])[]) {
  const spec = { clusterIP: "10.96.0.1", type: "LoadBalancer", externalTrafficPolicy: "Local" };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web" },
    spec: { ...spec, healthCheckNodePort: 32_000, ports },
  };
  const listed = slices.map((own, i) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `web-${i}`, labels: { "kubernetes.io/service-name": "web" } },
    addressType: "IPv4",
    ports: own,
    endpoints: [{ addresses: [`10.244.1.${i}`], nodeName: "n1" }],
  }));
  const objects = readScenario([service, ...listed].map((object) => `---\n${JSON.stringify(object)}\n`).join(""));
  const [first] = objects;
  assert.ok(first?.kind === "Service");
  return { service: first, slices: objects.filter((object) => object.kind === "EndpointSlice") };
}

describe("services/compile: a Service's port and those of its slices", () => {
  it("SVC-05 SVC-03 EPS-01: a port finds its endpoints by name and protocol, with each slice's own number", () => {
    const names = [
      { name: "a", protocol: "TCP" },
      { name: "a", protocol: "UDP" },
      { name: "b", protocol: "TCP" },
    ] as const;
    const numbered = (first: number): readonly object[] => names.map((port, i) => ({ ...port, port: first + i }));
    const others = [
      { name: "c", protocol: "TCP", port: 1 },
      { name: "b", protocol: "UDP", port: 2 },
    ];
    const slicesPorts = [numbered(10).concat(others), numbered(20), [{ name: "a", protocol: "TCP" }]];
    const { service, slices } = scenario(numbered(1), ...slicesPorts);
    for (const given of [slices, slices.toReversed()]) {
      const ports = slicePorts(given, service);
      assert.deepEqual([...ports.keys()].toSorted(), ["a", "b"], "a port that the Service does not have is left out");
      assert.equal(ports.get("b")?.length, 2);
      const numbers = names.map((port) => portEndpoints(ports, port, 4, context).usable.map((one) => one.port));
      assert.deepEqual(numbers, [
        [10, 20],
        [11, 21],
        [12, 22],
      ]);
    }
    assert.deepEqual(portEndpoints(slicePorts(slices, service), { name: "c", protocol: "TCP" }, 4, context).usable, []);
  });

  it("NOSEL-06: addresses that no host on a network has are special, in both families", () => {
    const special = [
      "127.0.0.9",
      "169.254.1.1",
      "224.0.0.7",
      "0.0.0.0",
      "255.255.255.255",
      "::1",
      "fe80::1",
      "ff02::1",
      "::",
    ];
    for (const text of special) assert.ok(isSpecial(parseAddress(text)), text);
    for (const text of ["10.244.1.1", "fd00:244::1"]) assert.ok(!isSpecial(parseAddress(text)), text);
  });

  it("MODE-03: the ports of a slice are read once, however many the Service has", () => {
    const ports = Array.from({ length: 50 }, (_, i) => ({ name: `p${i}`, protocol: "UDP", port: i + 1 }));
    const { service, slices } = scenario(ports, ports, ports);
    const holders = new FrontendHolders();
    holders.replace(service.key, service, context);
    const consumers: readonly ((of: Service, own: readonly EndpointSlice[]) => unknown)[] = [
      (of, own) => assert.equal(compileAlone(of, own, context).served.length, 50),
      (of, own) => {
        const frontends = atOnce(servedFrontends({ service: of, slices: own, context, holders }, "UDP"));
        const [targets = assert.fail()] = frontends.values();
        assert.equal(targets().size, 2);
      },
      (of, own) => assert.equal(healthCheckOf(of, own, context)?.localEndpoints.get(4), 2),
    ];
    for (const consume of consumers) {
      let read = 0;
      const counted = slices.map((slice) => ({ ...slice, ports: watched(slice.ports, () => read++) }));
      consume(service, counted);
      assert.equal(read, 2 * 50);
    }
  });

  it("SHARE-08: a health check reads each endpoint once, however many ports the Service has, and a port reads no endpoint of the other family", () => {
    const ports = Array.from({ length: 50 }, (_, i) => ({ name: `p${i}`, protocol: "UDP", port: i + 1 }));
    const { service, slices } = scenario(ports, ports);
    const reads = (consume: (own: readonly EndpointSlice[]) => void): number => {
      let read = 0;
      const watchedOnes = (endpoints: readonly Endpoint[]): readonly Endpoint[] =>
        endpoints.map((endpoint) => ({
          ...endpoint,
          get isReady() {
            read++;
            return endpoint.isReady;
          },
        }));
      consume(slices.map((slice) => ({ ...slice, endpoints: watchedOnes(slice.endpoints) })));
      return read;
    };
    assert.equal(
      reads((own) => healthCheckOf(service, own, context)),
      1,
    );
    const [port = assert.fail()] = service.ports;
    for (const [family, expected] of [
      [4, 1],
      [6, 0],
    ] as const) {
      assert.equal(
        reads((own) => portEndpoints(slicePorts(own, service), port, family, context)),
        expected,
      );
    }
  });
});

/** Ports that count how often their numbers are read. */
function watched(ports: readonly EndpointPort[], onRead: () => void): readonly EndpointPort[] {
  return ports.map((port) => ({
    ...port,
    get port() {
      onRead();
      return port.port;
    },
  }));
}
