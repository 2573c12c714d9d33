import assert from "node:assert/strict";
import { FakeClock } from "../../../../../policyd/clock.ts";
import type { NetworkPolicy } from "../../../../../policyd/cluster/model.ts";
import { RetainedPolicies } from "../../../../../policyd/policy/live/retained_policies.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const TERMINATING = { isTerminating: true };
const ACTIVE = { isTerminating: false };

function policy(name: string, namespace = "n"): NetworkPolicy {
  return objectOf("NetworkPolicy", { metadata: { name, namespace }, spec: { podSelector: {} } });
}

/** Retained policies with one pod in the namespace "n". */
function withPod() {
  const clock = new FakeClock();
  const retained = new RetainedPolicies(clock);
  retained.namespaceChanged("n", ACTIVE);
  const life = retained.enter("n");
  return { clock, retained, life, keys: () => [...life.retained.keys()].sort() };
}

describe("policyd/policy/live/retained_policies", () => {
  it("POL-58: a policy that is deleted while its namespace ends stays for its pods (CVE-2024-7598)", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.policyDeleted(policy("p", "other"));
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: so does one that was deleted up to ten seconds before that was seen, and no older one", () => {
    const { retained, clock, keys } = withPod();
    retained.policyDeleted(policy("old"));
    clock.pass(1);
    retained.policyDeleted(policy("p"));
    clock.pass(10_000);
    assert.deepEqual(keys(), []);
    assert.equal(retained.namespaceChanged("n", TERMINATING), true);
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: and one that goes together with its namespace, in either order", () => {
    const first = withPod();
    first.retained.policyDeleted(policy("p"));
    assert.equal(first.retained.namespaceChanged("n", undefined), true);
    const second = withPod();
    second.retained.namespaceChanged("n", undefined);
    second.retained.policyDeleted(policy("p"));
    assert.deepEqual([first.keys(), second.keys()], [["n/p"], ["n/p"]]);
  });

  it("POL-58: who deletes a policy from a namespace that stays gets what he asked for", () => {
    const { retained, keys } = withPod();
    retained.policyDeleted(policy("p"));
    assert.equal(retained.namespaceChanged("n", ACTIVE), false);
    assert.deepEqual(keys(), []);
    retained.policySet(policy("p"));
    retained.namespaceChanged("n", TERMINATING);
    assert.deepEqual(keys(), [], "what is there again need not be retained");
  });

  it("POL-58: a namespace that is created anew begins clean, and the pods of the former keep what they had", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", undefined);
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n").retained.keys()], []);
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: a pod that is attached late to a namespace that ends has them, also when all others have gone", () => {
    const { retained, life } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.leave(life);
    const late = retained.enter("n");
    assert.deepEqual([...late.retained.keys()], ["n/p"]);
    retained.namespaceChanged("n", undefined);
    retained.leave(late);
    assert.deepEqual([...retained.enter("n").retained.keys()], [], "nothing is left of a namespace and its pods");
  });

  it("POL-58: nothing is kept of what ended without pods", () => {
    const { retained, life } = withPod();
    retained.leave(life);
    retained.namespaceChanged("n", undefined);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n").retained.keys()], []);
  });
});
