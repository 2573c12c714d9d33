import assert from "node:assert/strict";
import fc from "fast-check";
import { type CountedPort, EndpointConnections } from "../../../../policyd/metrics/endpoint_connections.ts";
import { endpointNumber, portNumber } from "../../../../policyd/services/rules/priority_number.ts";

const WEB = 5;
const API = 6;

function port(endpoints: readonly string[], service = "web", identities: readonly number[] = [WEB]): CountedPort {
  return {
    service: { namespace: "default", name: service },
    port: { name: "http", protocol: "TCP" },
    identities,
    endpoints,
  };
}

function totals(connections: EndpointConnections): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...connections.series()].map(({ service, endpoint, connections: count }) => [`${service} ${endpoint}`, count]),
  );
}

describe("policyd/metrics/endpoint_connections", () => {
  let connections: EndpointConnections;
  beforeEach(() => {
    connections = new EndpointConnections();
  });

  function claim(...ports: readonly CountedPort[]): void {
    connections.claim("web", () => ports);
    connections.settle();
  }

  /** Reports a counter of the kernel for an endpoint. */
  function observe(endpoint: string, packets: number, number = portNumber(WEB, 0)): void {
    connections.observe({ number, endpoint, packets });
  }

  it("a series disappears with its endpoint, and with its Service", () => {
    claim(port(["e1", "e2"]));
    observe("e1", 5);
    connections.claim("web", () => [port(["e2"])]);
    assert.deepEqual(
      totals(connections),
      { "web e1": 5, "web e2": 0 },
      "the series stays until the kernel has removed the endpoint",
    );
    connections.settle();
    assert.deepEqual(totals(connections), { "web e2": 0 });
    observe("e1", 6);
    assert.deepEqual(totals(connections), { "web e2": 0 });
    claim();
    observe("e2", 6);
    assert.deepEqual(totals(connections), {});
  });

  it("two ports with one identity are distinguished by their endpoints", () => {
    connections.claim("api", () => [port(["e3"], "api", [API, WEB])]);
    claim(port(["e1"]));
    observe("e1", 5);
    observe("e3", 6);
    assert.deepEqual(totals(connections), { "api e3": 6, "web e1": 5 });
    connections.claim("api", () => []);
    connections.settle();
    observe("e1", 7);
    assert.deepEqual(totals(connections), { "web e1": 7 });
  });

  it("METRIC-10: the endpoints of one namespace have series up to a bound, another namespace has its share, and a Service that is removed makes room", () => {
    const bounded = new EndpointConnections({ share: 2, pool: 3 });
    const claims = [
      ["a/big", 4],
      ["a/more", 2],
      ["a/last", 1],
      ["b/web", 2],
    ] as const;
    for (const [owner, count] of claims) {
      const endpoints = Array.from({ length: count }, (_, index) => `e${index}`);
      bounded.claim(owner, () => [port(endpoints, owner)]);
    }
    bounded.settle();
    const served = (): string => [...new Set([...bounded.series()].map(({ service }) => service))].join();
    assert.equal(served(), "a/big,a/last,b/web");
    bounded.claim("a/big", () => []);
    bounded.claim("a/more", () => [port(["e0", "e1"], "a/more")]);
    bounded.settle();
    assert.equal(served(), "a/last,b/web,a/more");
  });

  it("for any order of connections, reads and changes, a series is the number of connections and never falls", () => {
    const names = ["e0", "e1", "e2", "e3"];
    const step = fc.oneof(
      fc.record({ type: fc.constant("connect" as const), endpoint: fc.constantFrom(...names), stays: fc.boolean() }),
      fc.record({ type: fc.constant("read" as const) }),
      fc.record({ type: fc.constant("anew" as const) }),
      fc.record({ type: fc.constant("write" as const), endpoints: fc.subarray(names) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const sums = new EndpointConnections();
        /** The kernel's counters under the port's number and the endpoint's own number. */
        const kernel = new Map<string, { readonly number: number; readonly endpoint: string; packets: number }>();
        let real = new Map(names.map((name) => [name, 0]));
        sums.claim("web", () => [port(names, "web", [WEB, WEB ^ 1])]);
        sums.settle();
        const read = (): void => {
          for (const counted of kernel.values()) sums.observe(counted);
        };
        for (const current of steps) {
          if (current.type === "connect") {
            if (!real.has(current.endpoint)) continue;
            const number = current.stays ? endpointNumber(WEB, 1) : portNumber(WEB, 61);
            const id = `${number} ${current.endpoint}`;
            const counted = kernel.get(id) ?? { number, endpoint: current.endpoint, packets: 0 };
            counted.packets++;
            kernel.set(id, counted);
            real.set(current.endpoint, (real.get(current.endpoint) ?? 0) + 1);
          } else if (current.type === "read") {
            read();
          } else if (current.type === "anew") {
            // Connections after the last read are lost with the table.
            read();
            kernel.clear();
            sums.allRemoved();
          } else {
            sums.claim("web", () => [port(current.endpoints, "web", [WEB, WEB ^ 1])]);
            sums.settle();
            // An endpoint that comes back continues with the kernel's counter, which still exists.
            const counted = (endpoint: string): number =>
              [...kernel.values()]
                .filter((one) => one.endpoint === endpoint)
                .reduce((sum, one) => sum + one.packets, 0);
            real = new Map(
              current.endpoints.map((endpoint) => [endpoint, real.get(endpoint) ?? counted(endpoint)] as const),
            );
          }
        }
        read();
        assert.deepEqual(totals(sums), Object.fromEntries([...real].map(([e, count]) => [`web ${e}`, count])));
      }),
      { numRuns: 2000 },
    );
  });
});
