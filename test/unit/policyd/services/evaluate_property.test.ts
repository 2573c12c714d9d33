import assert from "node:assert/strict";
import * as fc from "fast-check";
import { evaluate } from "../../../../policyd/semantics/services/evaluate.ts";
import type { ServiceWorld } from "../../../../policyd/semantics/services/world.ts";
import { serviceCases } from "../../../support/evaluate/arbitrary_world.ts";
import { Statistics } from "../../../support/evaluate/features.ts";
import { summary } from "../../../support/evaluate/scenario.ts";

describe("policyd/services/evaluate: random clusters", () => {
  it("EPS-01 EPS-08: the order in which Services, slices and nodes are known does not matter", () => {
    fc.assert(
      fc.property(serviceCases, ({ world, packet }) => {
        assert.equal(summary(evaluate(reversed(world), packet)), summary(evaluate(world, packet)));
      }),
      { numRuns: 1500 },
    );
  });

  it("candidates are distinct, usable and in scope, and every other endpoint has a reason for being omitted", () => {
    fc.assert(
      fc.property(serviceCases, ({ world, packet }) => {
        const verdict = evaluate(world, packet);
        if (verdict.kind !== "translate") return;
        const { candidates, route, endpoints, frontend } = verdict;
        const sockets = candidates.map(({ destination }) => `${destination.address} ${destination.port}`);
        assert.equal(new Set(sockets).size, sockets.length);
        const states = new Set(candidates.map(({ because }) => because[0]?.type));
        assert.equal(states.size, 1, "ready and terminating endpoints are never mixed");
        if (route.endpoints === "local") {
          assert.ok(candidates.every(({ because }) => because.some(({ type }) => type === "on this node")));
        }
        const entries = world.endpointSlices
          .filter(({ namespace, serviceName }) => `${namespace}/${serviceName}` === frontend.service)
          .flatMap((slice) => slice.endpoints);
        assert.equal(candidates.length + endpoints.omitted.length, entries.length);
      }),
      { numRuns: 1500 },
    );
  });

  it("the generator produces every verdict and every reason often enough", () => {
    const statistics = new Statistics();
    for (const { world, packet } of fc.sample(serviceCases, { numRuns: 2000, seed: 4 })) {
      statistics.count(evaluate(world, packet));
    }
    statistics.check();
  });
});

function reversed(world: ServiceWorld): ServiceWorld {
  return {
    ...world,
    services: world.services.toReversed(),
    endpointSlices: world.endpointSlices.toReversed(),
    nodes: world.nodes.toReversed(),
  };
}
