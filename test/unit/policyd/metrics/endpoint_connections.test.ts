import assert from "node:assert/strict";
import fc from "fast-check";
import type { Element } from "../../../../kernel/nftables/object.ts";
import type { CountingElement } from "../../../../policyd/metrics/endpoint_connections.ts";
import { EndpointConnections } from "../../../../policyd/metrics/endpoint_connections.ts";

const SET = "inet drawbridge service4_2";

/** The element of a Service at a slot. */
function element(slot: number, endpoint: number): Element {
  return { key: [1, "tcp", 80, slot], data: [endpoint, 8080] };
}

function claim(slot: number, endpoint: number, service = "web"): CountingElement {
  const port = { namespace: "default", service, port: "http", protocol: "TCP" };
  return { set: SET, element: element(slot, endpoint), port };
}

function totals(connections: EndpointConnections): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...connections.series()].map(({ labels: { service, endpoint }, connections: count }) => {
      const [, number = endpoint] = /^0\.0\.0\.(\d+):8080$/.exec(endpoint) ?? [];
      return [`${service} e${number}`, count];
    }),
  );
}

describe("policyd/metrics/endpoint_connections", () => {
  let connections: EndpointConnections;
  beforeEach(() => {
    connections = new EndpointConnections();
  });

  it("a series is the sum of an endpoint's elements", () => {
    connections.claim("web", () => [claim(0, 1), claim(1, 1), claim(2, 2)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 3);
    connections.observe(SET, element(1, 1), 4);
    assert.deepEqual(totals(connections), { "web e1": 7, "web e2": 0 });
  });

  it("an element that is written anew counts on from what its endpoint had", () => {
    connections.claim("web", () => [claim(0, 1)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 10);
    connections.claim("web", () => [claim(1, 1)]);
    assert.ok(connections.isWanted(SET, element(0, 1)), "what it has counted since is read before it goes");
    connections.observe(SET, element(0, 1), 12);
    connections.removed(SET, element(0, 1));
    connections.settle();
    assert.deepEqual(totals(connections), { "web e1": 12 });
    connections.observe(SET, element(1, 1), 1);
    assert.deepEqual(totals(connections), { "web e1": 13 });
  });

  it("an element that went and came back between two readings is no smaller one", () => {
    connections.claim("web", () => [claim(0, 1)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 5);
    connections.removed(SET, element(0, 1));
    connections.observe(SET, element(0, 1), 8);
    assert.deepEqual(totals(connections), { "web e1": 13 });
    connections.observe(SET, element(0, 1), 2);
    assert.deepEqual(totals(connections), { "web e1": 15 }, "nor is one that somebody else has written");
  });

  it("what the kernel said of the element before is not taken for the new one's", () => {
    connections.claim("web", () => [claim(0, 1)]);
    connections.settle();
    const asked = connections.moment;
    connections.removed(SET, element(0, 1));
    connections.observe(SET, element(0, 1), 100, asked);
    assert.deepEqual(totals(connections), { "web e1": 0 });
    connections.observe(SET, element(0, 1), 1, connections.moment);
    assert.deepEqual(totals(connections), { "web e1": 1 });
  });

  it("a series disappears with its endpoint, and with its Service", () => {
    connections.claim("web", () => [claim(0, 1), claim(1, 2)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 5);
    connections.claim("web", () => [claim(0, 2)]);
    assert.ok(!connections.isWanted(SET, element(0, 1)));
    assert.deepEqual(Object.keys(totals(connections)), ["web e1", "web e2"], "until the kernel has it");
    connections.settle();
    assert.deepEqual(totals(connections), { "web e2": 0 });
    connections.claim("web", () => []);
    connections.settle();
    assert.deepEqual(totals(connections), {});
    assert.deepEqual(connections.sets(), []);
  });

  it("an element that passes to another Service brings no connections along", () => {
    connections.claim("web", () => [claim(0, 1)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 5);
    connections.claim("web", () => []);
    connections.claim("api", () => [claim(0, 1, "api")]);
    connections.settle();
    connections.observe(SET, element(0, 1), 6);
    assert.deepEqual(totals(connections), { "api e1": 1 });
  });

  it("all elements of a table may go at once", () => {
    connections.claim("web", () => [claim(0, 1)]);
    connections.settle();
    connections.observe(SET, element(0, 1), 5);
    connections.allRemoved(new Set(["inet other"]));
    connections.observe(SET, element(0, 1), 6);
    connections.allRemoved(new Set([SET]));
    connections.observe(SET, element(0, 1), 7);
    assert.deepEqual(totals(connections), { "web e1": 13 });
  });

  it("whatever moves, an endpoint's number is that of its connections, and never falls", () => {
    const step = fc.oneof(
      fc.record({ type: fc.constant("connect" as const), slot: fc.nat(3) }),
      fc.record({ type: fc.constant("read" as const) }),
      fc.record({
        type: fc.constant("write" as const),
        endpoints: fc.uniqueArray(fc.nat(4), { minLength: 1, maxLength: 4 }),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const sums = new EndpointConnections();
        let kernel: { readonly endpoint: number; packets: number }[] = [];
        let real = new Map<number, number>();
        for (const current of steps) {
          if (current.type === "connect") {
            const hit = kernel[current.slot];
            if (hit === undefined) continue;
            hit.packets++;
            real.set(hit.endpoint, (real.get(hit.endpoint) ?? 0) + 1);
          } else if (current.type === "read") {
            for (const [slot, { endpoint, packets }] of kernel.entries())
              sums.observe(SET, element(slot, endpoint), packets);
          } else {
            const { endpoints } = current;
            sums.claim("web", () => endpoints.map((endpoint, slot) => claim(slot, endpoint)));
            const next = endpoints.map((endpoint, slot) =>
              kernel[slot]?.endpoint === endpoint ? kernel[slot] : { endpoint, packets: 0 },
            );
            const gone = [...kernel.entries()].filter(([slot, one]) => next[slot] !== one);
            for (const [slot, { endpoint, packets }] of gone) {
              if (sums.isWanted(SET, element(slot, endpoint))) sums.observe(SET, element(slot, endpoint), packets);
            }
            for (const [slot, { endpoint }] of gone) sums.removed(SET, element(slot, endpoint));
            kernel = next;
            sums.settle();
            real = new Map(endpoints.map((endpoint) => [endpoint, real.get(endpoint) ?? 0]));
          }
        }
        for (const [slot, { endpoint, packets }] of kernel.entries())
          sums.observe(SET, element(slot, endpoint), packets);
        assert.deepEqual(totals(sums), Object.fromEntries([...real].map(([e, count]) => [`web e${e}`, count])));
      }),
    );
  });
});
