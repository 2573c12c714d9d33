import assert from "node:assert/strict";
import * as fc from "fast-check";
import { evaluatePolicy } from "../../../../../objects/semantics/policies/evaluate.ts";
import type { FlowEnds, Traffic } from "../../../../../objects/semantics/policies/flow.ts";
import { buildPolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { reducedCluster } from "../../../../../policyd/policies/drop_log/cluster_view.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { flowOf, manifestsOf } from "../../../../support/policy/raw_cluster.ts";
import { storeView } from "../../../../support/policy/store_view.ts";
import { roundsFor } from "../../../../support/long_form.ts";

const CASES = roundsFor("cases", 150, 2000);

describe("policyd/policies/drop_log: the part of a cluster that explains a packet", () => {
  it("DROP-01: the reduced cluster of two ends gives the same verdict and reasons as the whole cluster", function () {
    this.timeout(120_000);
    let compared = 0;
    fc.assert(
      fc.property(policyCases, ({ cluster, flows }) => {
        const store = storeOf(manifestsOf(cluster));
        const index = buildPolicyIndex(store);
        const view = storeView(store);
        for (const raw of flows) {
          const { source, destination, family, isThroughService, ...traffic } = flowOf(raw);
          const whole = evaluatePolicy(index, { source, destination, family, isThroughService, ...traffic });
          if (whole.kind === "impossible") continue;
          const [from, to] = [whole.source.address, whole.destination.address];
          // A packet has addresses, which determine its ends.
          if (from === undefined || to === undefined) continue;
          const packet: FlowEnds & Traffic = {
            source: { type: "address", address: from },
            destination: { type: "address", address: to },
            isThroughService,
            ...traffic,
          };
          for (const direction of ["egress", "ingress"] as const) {
            const [subject, other] = direction === "egress" ? [from, to] : [to, from];
            // A node knows which pod of its own has an address.
            if ((index.owners.get(subject)?.length ?? 0) > 1) continue;
            const reduced = evaluatePolicy(buildPolicyIndex(reducedCluster(view, subject, other)), packet);
            const expected = evaluatePolicy(index, packet);
            assert.ok(reduced.kind !== "impossible" && expected.kind !== "impossible");
            assert.deepEqual(reduced[direction], expected[direction]);
            compared++;
          }
        }
      }),
      { numRuns: CASES },
    );
    assert.ok(compared > CASES, `${compared}`);
  });
});
