import assert from "node:assert/strict";
import { evaluatePolicy } from "../../../../../policyd/semantics/policies/evaluate.ts";
import { buildPolicyIndex } from "../../../../../policyd/semantics/policies/policy_index.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { KEYS, threeByThree } from "../../../../support/policy/three_by_three.ts";
import type { UpstreamStep } from "../../../../support/policy/upstream_case.ts";
import { UPSTREAM_CASES } from "../../../../support/policy/upstream_cases.ts";

const PAIRS = KEYS.flatMap((from) => KEYS.filter((to) => to !== from).map((to) => ({ from, to })));

describe("policyd/semantics/policies: the cases of kubernetes' own network policy tests", () => {
  it("POL-51: all upstream cases from 1 to 48 are here, once", () => {
    assert.deepEqual(
      UPSTREAM_CASES.map(({ number }) => number),
      Array.from({ length: 48 }, (_, index) => index + 1),
    );
  });

  for (const { number, name, steps } of UPSTREAM_CASES) {
    it(`POL-51: upstream ${number}: ${name}`, () => {
      for (const [index, step] of steps.entries()) {
        assert.deepEqual(
          deniedPairs(step),
          PAIRS.filter(({ from, to }) => step.isDenied(from, to)),
          `step ${index + 1}`,
        );
      }
    });
  }
});

function deniedPairs({ policies, labels, protocol, port }: UpstreamStep): readonly object[] {
  const index = buildPolicyIndex(storeOf([...threeByThree(labels), ...policies]));
  return PAIRS.filter(({ from, to }) => {
    const ends = { source: { type: "pod", key: from }, destination: { type: "pod", key: to } } as const;
    return evaluatePolicy(index, { ...ends, protocol, port }).kind === "denied";
  });
}
