import assert from "node:assert/strict";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { EndpointSeries } from "../../../../policyd/metrics/endpoint_connections.ts";
import { metricsPage, type PageParts } from "../../../../policyd/metrics/page.ts";
import { PolicySums } from "../../../../policyd/metrics/policy_sums.ts";

describe("policyd/metrics/page", () => {
  const labels = { namespace: "default", service: "web", port: "", protocol: "TCP", endpoint: "10.0.0.1:80" };

  async function text(parts: Omit<PageParts, "registry" | "policyCounters">): Promise<string> {
    const sums = new PolicySums();
    const comment = "NetworkPolicy rule 0 of shop/web";
    sums.observe({ chain: "ingress_00000000000000aa", comment, verdict: undefined, handle: 1n, packets: 3 });
    const policyCounters = { refresh: async () => {}, sums };
    const registry = { metrics: async () => "a 1\n" };
    const pieces: string[] = [];
    for await (const piece of metricsPage({ ...parts, policyCounters, registry })) pieces.push(piece);
    return pieces.join("");
  }

  function countersOf(refresh: () => Promise<void>, connections = (): number => 1): PageParts["counters"] {
    return {
      refresh,
      *series() {
        yield { ...labels, connections: connections() } satisfies EndpointSeries;
      },
    };
  }

  it("the page has the endpoints as they are after the read, or no endpoints where they are switched off", async () => {
    let connections = 0;
    const refresh = async (): Promise<void> => {
      connections = 7;
    };
    const counters = countersOf(refresh, () => connections);
    const clock = new FakeClock();
    assert.match(await text({ counters, hasEndpoints: true, clock }), /^a 1\n[^]*endpoint="10\.0\.0\.1:80"\} 7\n$/);
    const without = await text({ counters, hasEndpoints: false, clock });
    assert.match(
      without,
      /^a 1\n[^]*drawbridge_policy_dropped_packets_total\{direction="egress",reason="isolated"\} 0\n/,
    );
    assert.match(
      without,
      /^drawbridge_policy_rule_packets_total\{policy="shop\/web",direction="ingress",rule="0"\} 3$/m,
    );
    assert.doesNotMatch(without, /endpoint/);
    assert.equal(clock.pending, 0);
  });

  it("the page has the known values when a read takes too long", async () => {
    const clock = new FakeClock();
    const page = text({ counters: countersOf(() => new Promise(() => {})), hasEndpoints: true, clock });
    let isThere = false;
    void page.then(() => (isThere = true));
    clock.pass(4999);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isThere, false);
    clock.pass(1);
    assert.match(await page, /\} 1\n$/);
  });
});
