import assert from "node:assert/strict";
import process from "node:process";
import * as fc from "fast-check";
import { tryParseAddress } from "../../../../../kernel/ip/address.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { evaluatePolicy } from "../../../../../policyd/semantics/policies/evaluate.ts";
import { resolveFlow } from "../../../../../policyd/semantics/policies/party.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../policyd/semantics/policies/policy_index.ts";
import type { EndVerdict } from "../../../../../policyd/semantics/policies/verdict.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../../../../support/policy/compiled_cluster.ts";
import { flowOf, manifestsOf, type RawFlow } from "../../../../support/policy/raw_cluster.ts";

import { PolicedCluster } from "../../../../support/policy/three_readings.ts";

const isFull = process.env["DRAWBRIDGE_FULL"] === "1";
/** The number of clusters, with eight flows each, of which two thirds can be sent. */
const CLUSTERS = isFull ? 8000 : 1000;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? (isFull ? Date.now() % 0x7fff_ffff : 6));

/** The number of rules above which a profile is flattened: never, the daemon's default, always. */
const FLATTEN_ABOVE = [Number.POSITIVE_INFINITY, undefined, 0] as const;

/** The flows of which a packet can be sent from one pod or node to another, with the evaluator's verdicts. */
function sendable(index: PolicyIndex, flows: readonly RawFlow[]) {
  return flows.flatMap((raw) => {
    const flow = flowOf(raw);
    const ends = resolveFlow(index, flow);
    const verdict = evaluatePolicy(index, flow);
    if ("kind" in ends || verdict.kind === "impossible") return [];
    const [source, destination] = [ends.source.address, ends.destination.address];
    if (source === undefined || destination === undefined) return [];
    // Such a packet stays within the pod.
    if (source === destination && flow.isThroughService !== true) return [];
    const addressed = { source, destination, protocol: flow.protocol, port: raw.port };
    return [{ verdict, addressed, text: JSON.stringify(raw) }];
  });
}

const options = fc.record({
  policePodToOwnNode: fc.boolean(),
  policyReset: fc.boolean(),
  dropLog: fc.boolean(),
});

describe(`policyd/policies/compile: three implementations (seed ${seed})`, () => {
  it("POL-04 POL-06 POL-07 POL-25 POL-31: evaluator, tables and profiles agree on random flows", function () {
    this.timeout(20 * 60_000);
    const seen = { allowed: 0, denied: 0, egress: 0, ingress: 0, shadow: 0 };
    fc.assert(
      fc.property(policyCases, options, fc.constantFrom(...FLATTEN_ABOVE), ({ cluster, flows }, own, above) => {
        const store = storeOf(manifestsOf(cluster));
        const nodeLocalDNS = flows
          .map(({ destination }) => tryParseAddress(destination))
          .filter((one) => one !== undefined);
        const all = { ...DEFAULT_POLICY_OPTIONS, ...own, nodeLocalDNS };
        const index = buildPolicyIndex(store, { ...own, nodeLocalDNS });
        const policed = new PolicedCluster(new CompiledCluster(store, all, above), all);
        for (const { verdict, addressed, text } of sendable(index, flows)) {
          const { isPassed, wouldDrop } = policed.send(addressed);
          assert.equal(isPassed, verdict.kind === "allowed", `the tables: ${text}`);
          seen[verdict.kind]++;
          for (const direction of ["egress", "ingress"] as const) {
            const { isAllowed, shadow }: EndVerdict = verdict[direction];
            const judged = policed.judges(direction, addressed);
            if (judged !== undefined) {
              assert.equal(judged, isAllowed, `the ${direction} profile: ${text}`);
              seen[direction]++;
            }
            if (direction === "ingress" && !verdict.egress.isAllowed) continue;
            assert.equal(wouldDrop.has(direction), shadow?.wouldDrop ?? false, `the ${direction} shadow: ${text}`);
            if (wouldDrop.has(direction)) seen.shadow++;
          }
        }
      }),
      { numRuns: CLUSTERS, seed },
    );
    const [allowed, denied] = [seen.allowed, seen.denied].map((count) => count / (seen.allowed + seen.denied));
    assert.ok(seen.allowed + seen.denied > CLUSTERS * 5, JSON.stringify(seen));
    assert.ok((allowed ?? 0) > 0.3 && (denied ?? 0) > 0.3, JSON.stringify(seen));
    assert.ok(Math.min(seen.egress, seen.ingress) > CLUSTERS * 2 && seen.shadow > CLUSTERS / 10, JSON.stringify(seen));
  });

  it("POL-90: no random flow passes while one of its pods has no verdict in the direction", function () {
    this.timeout(20 * 60_000);
    const seen = { closed: 0, others: 0 };
    fc.assert(
      fc.property(policyCases, ({ cluster, flows }) => {
        const store = storeOf(manifestsOf(cluster));
        const policed = new PolicedCluster(new CompiledCluster(store, DEFAULT_POLICY_OPTIONS), DEFAULT_POLICY_OPTIONS);
        const index = buildPolicyIndex(store, DEFAULT_POLICY_OPTIONS);
        for (const { verdict, addressed, text } of sendable(index, flows)) {
          if (verdict.kind !== "allowed") continue;
          for (const direction of ["egress", "ingress"] as const) {
            const isPassed = policed.passesWithout(direction, addressed);
            assert.notEqual(isPassed, true, `without ${direction}: ${text}`);
            seen[isPassed === undefined ? "others" : "closed"]++;
          }
        }
      }),
      { numRuns: CLUSTERS / 4, seed },
    );
    assert.ok(seen.closed > CLUSTERS / 4, JSON.stringify(seen));
  });
});
