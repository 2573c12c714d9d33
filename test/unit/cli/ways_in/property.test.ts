import assert from "node:assert/strict";
import * as fc from "fast-check";
import { includes, isEmpty, ofPorts } from "../../../../cli/policy/connections/connection_set.ts";
import { matrixOf } from "../../../../cli/policy/matrix/matrix.ts";
import type { MatrixEnd } from "../../../../cli/policy/matrix/end.ts";
import { regionsFor } from "../../../../cli/policy/matrix/outside.ts";
import type { Pod } from "../../../../objects/model.ts";
import { isFinished } from "../../../../objects/semantics/policies/address_owner.ts";
import { isAllowed } from "../../../../objects/semantics/policies/evaluate.ts";
import type { FlowEnd } from "../../../../objects/semantics/policies/flow.ts";
import { familiesOf, resolveFlow } from "../../../../objects/semantics/policies/party.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import { policyCases } from "../../../support/policy/arbitrary_cluster.ts";
import { indexOf } from "../../../support/policy/question.ts";
import { manifestsOf } from "../../../support/policy/raw_cluster.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const ROUNDS = roundsFor("rounds", 40, 1000);

interface Case {
  readonly controllers: readonly Pod[];
  readonly destination: Pod;
  readonly door: number;
  readonly port: number;
}

describe("ways in: against the evaluator", function () {
  this.timeout(300_000);

  it("INGRESS-07: a way is open exactly where the evaluator allows both hops, in some case and in every one", () => {
    const seen = { no: 0, some: 0, yes: 0 };
    const ports = fc.constantFrom(53, 80, 443, 8080);
    fc.assert(
      fc.property(policyCases, fc.nat(), ports, ports, ({ cluster }, seed, door, port) => {
        const index = indexOf(manifestsOf(cluster));
        const pods = [...index.pods.values()].map(({ pod }) => pod).filter((pod) => !isFinished(pod));
        if (pods.length === 0) return;
        const controllers = pods.filter((_, i) => (i + seed) % 3 === 0);
        if (controllers.length === 0) return;
        const single = { first: port, last: port };
        const set = ofPorts((protocol) => (protocol === "TCP" ? [single] : []), false);
        const way: MatrixEnd = {
          name: "outside through x",
          kind: "way in",
          pods: [],
          regions: [],
          wayIn: {
            ways: [],
            controllers,
            doors: { services: [], ports: new Map(controllers.map(({ key }) => [key, [door]])) },
            ports: new Map(pods.map(({ key }) => [key, set])),
          },
        };
        const matrix = matrixOf(index, "pod", { waysIn: [way] });
        for (const group of matrix.groups) {
          const [destination] = group.pods;
          assert.ok(destination !== undefined);
          const connections = matrix.between(way, group);
          assert.ok(connections !== undefined);
          const expected = answerOf(index, { controllers, destination, door, port });
          const actual = includes(connections.every, "TCP", port)
            ? "yes"
            : includes(connections.some, "TCP", port)
              ? "some"
              : "no";
          assert.equal(actual, expected);
          if (actual === "no") assert.ok(isEmpty(connections.some), "only the ports of the way");
          seen[actual]++;
        }
      }),
      { numRuns: ROUNDS, seed: countedSeed() },
    );
    assert.ok(Math.min(seen.no, seen.some, seen.yes) > ROUNDS / 5, JSON.stringify(seen));
  });
});

/** Returns the evaluator's answer about all cases, each evaluated by itself. */
function answerOf(index: PolicyIndex, { controllers, destination, door, port }: Case): "no" | "some" | "yes" {
  const regions = regionsFor(index, controllers);
  const answers = controllers.flatMap((controller): readonly boolean[] => {
    const entries = regions.flatMap(({ representative: address, family }) => {
      const ends = { source: { type: "address", address }, destination: podEnd(controller), family } as const;
      const isPossible = !("kind" in resolveFlow(index, { ...ends, protocol: "TCP", port: door }));
      return isPossible ? [isAllowed(index, { ...ends, protocol: "TCP", port: door })] : [];
    });
    const ends = { source: podEnd(controller), destination: podEnd(destination) };
    const families = familiesOf(index, ends) ?? [undefined];
    const sent = families.map((family) => isAllowed(index, { ...ends, family, protocol: "TCP", port }));
    const hops = entries.flatMap((isIn) => sent.map((isOn) => isIn && isOn));
    return hops.length > 0 ? hops : [false];
  });
  if (answers.every(Boolean)) return "yes";
  return answers.some(Boolean) ? "some" : "no";
}

function podEnd({ key }: Pod): FlowEnd {
  return { type: "pod", key };
}
