import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { evaluatePolicy, isAllowed } from "../../../../../policyd/semantics/policies/evaluate.ts";
import { buildPolicyIndex } from "../../../../../policyd/semantics/policies/policy_index.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { featuresOf } from "../../../../support/policy/features.ts";
import { flowOf, manifestsOf } from "../../../../support/policy/raw_cluster.ts";
import { secondReading, secondReadingOfShadow } from "../../../../support/policy/second_reading.ts";

const CLUSTERS = 2500;

describe("policyd/semantics/policies: random clusters", () => {
  it("the evaluator agrees with a second, plain implementation on 20,000 flows", function () {
    this.timeout(120_000);
    fc.assert(
      fc.property(policyCases, ({ cluster, flows }) => {
        const nodeLocalDNS = flows.map(({ destination }) => destination).filter((one) => !one.includes(" "));
        const options = { nodeLocalDNS };
        const index = buildPolicyIndex(storeOf(manifestsOf(cluster)), {
          nodeLocalDNS: nodeLocalDNS.map((text) => parseAddress(text)),
        });
        for (const raw of flows) {
          const verdict = evaluatePolicy(index, flowOf(raw));
          const { kind } = verdict;
          const expected = secondReading(cluster, raw, options);
          if (kind !== expected)
            assert.fail(`${kind}, but ${expected} by the second implementation: ${JSON.stringify(raw)}`);
          assert.equal(isAllowed(index, flowOf(raw)), kind === "allowed");
          if (verdict.kind === "impossible") continue;
          for (const [direction, type] of [
            ["egress", "Egress"],
            ["ingress", "Ingress"],
          ] as const) {
            const would = secondReadingOfShadow(cluster, raw, type, options);
            const reads: boolean = verdict[direction].shadow?.wouldDrop ?? false;
            if (reads !== would) assert.fail(`shadow, ${direction}: ${reads}, and ${would}: ${JSON.stringify(raw)}`);
          }
        }
      }),
      { numRuns: CLUSTERS },
    );
  });

  it("the generator allows about half of the flows and produces every feature often enough", () => {
    const seen = new Map<string, number>();
    const cases = fc.sample(policyCases, { numRuns: 500, seed: 5 });
    const total = cases.reduce((sum, { flows }) => sum + flows.length, 0);
    for (const { cluster, flows } of cases) {
      const index = buildPolicyIndex(storeOf(manifestsOf(cluster)));
      for (const raw of flows) {
        const verdict = evaluatePolicy(index, flowOf(raw));
        for (const feature of featuresOf(cluster, raw, verdict)) seen.set(feature, (seen.get(feature) ?? 0) + 1);
      }
    }
    const share = (feature: string): number => (seen.get(feature) ?? 0) / total;
    const shares = JSON.stringify(Object.fromEntries([...seen].map(([feature]) => [feature, share(feature)])), null, 1);
    const rare = FEATURES.filter((feature) => share(feature) < 0.02);
    assert.deepEqual(rare, [], shares);
    assert.ok(share("allowed") > 0.3 && share("allowed") < 0.7, shares);
  });
});

const FEATURES = [
  "allowed",
  "denied",
  "impossible",
  "TCP",
  "UDP",
  "SCTP",
  "ICMP",
  "ICMP error",
  "IPv4",
  "IPv6",
  "pod",
  "node",
  "outside",
  "no pod",
  "own node",
  "itself",
  "default",
  "isolated",
  "rule",
  "cluster rule",
  "would drop",
  "shadow allows",
  "everyone",
  "podSelector",
  "namespaceSelector",
  "namespaceSelector and podSelector",
  "ipBlock",
  "any port",
  "protocol",
  "port number",
  "port string",
  "range",
  "Admin",
  "Baseline",
  "Accept",
  "Deny",
  "Pass",
  "unreadable",
  "cluster number",
  "cluster name",
  "peer namespaces",
  "peer pods",
  "peer nodes",
  "peer networks",
];
