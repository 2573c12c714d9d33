import assert from "node:assert/strict";
import type { EvaluatedFlow } from "../../../../../objects/semantics/policies/verdict.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

const FROM_A = { from: [{ podSelector: { matchLabels: { pod: "a" } } }], ports: [{ port: 80 }] };

function networkPolicy(name: string, spec: object, shadow?: string): object {
  const annotations = shadow === undefined ? {} : { annotations: { "drawbridge.dev/shadow": shadow } };
  const metadata = { name, namespace: "x", ...annotations };
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec };
}

function judge(objects: readonly object[], from: string, to: string, traffic?: string): EvaluatedFlow {
  const verdict = ask(indexOf([...threeByThree(), ...objects]), [from, to], traffic);
  assert.ok(verdict.kind !== "impossible");
  return verdict;
}

const SHADOW = networkPolicy("try", { podSelector: {}, ingress: [FROM_A] }, "true");

describe("objects/semantics/policies: policies in shadow", () => {
  it("POL-70: a policy in shadow isolates no pod, and the verdict says what it would deny and which rule is nearest", () => {
    const verdict = judge([SHADOW], "x/b", "x/c");
    assert.equal(verdict.kind, "allowed");
    assert.deepEqual(verdict.ingress.decision, { type: "default" });
    assert.deepEqual(verdict.ingress.isolatedBy, []);
    assert.equal(verdict.ingress.shadow?.wouldDrop, true);
    assert.deepEqual(verdict.ingress.shadow.policies, ["x/try"]);
    assert.equal(verdict.ingress.shadow.nearest?.policy, "x/try");
    assert.equal(verdict.egress.shadow, undefined);
  });

  it("POL-70: any other value than true leaves the policy in force", () => {
    for (const value of ["false", "True", "yes", "", " true", "1"]) {
      const verdict = judge([networkPolicy("try", { podSelector: {} }, value)], "x/b", "x/c");
      assert.equal(verdict.kind, "denied", value);
      assert.equal(verdict.ingress.shadow, undefined);
    }
  });
});
