import assert from "node:assert/strict";
import { storeOf } from "../../../../cli/cluster/policy_objects.ts";
import { isAllowed } from "../../../../objects/semantics/policies/evaluate.ts";
import { buildPolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import {
  admits,
  baseManifests,
  type BenchPod,
  benchPod,
  benchPods,
  benchPolicies,
  changeTo,
  LOCAL_PODS,
  localPolicy,
  namespaceManifests,
  NODE,
  nodeManifest,
  pertinentPod,
  podManifest,
  policyManifest,
  PORT,
  relabelled,
  selects,
} from "../../../bench/policy/cluster.ts";
import { crowd } from "../../../bench/policy/crowd.ts";
import { mulberry32 } from "../../../bench/statistics.ts";

/** Returns a function that asks the evaluator whether the first packet from one pod to another passes. */
function asker(manifests: readonly object[]): (from: BenchPod, to: BenchPod) => boolean {
  const objects = manifests.map(changeTo).flatMap((change) => (change.type === "set" ? [change.object] : []));
  const index = buildPolicyIndex(storeOf(objects));
  return (from, to) =>
    isAllowed(index, {
      source: { type: "pod", key: `${from.namespace}/${from.name}` },
      destination: { type: "pod", key: `${to.namespace}/${to.name}` },
      protocol: "UDP",
      port: PORT,
    });
}

describe("the policy benchmark's cluster", () => {
  const size = { pods: 1000, policies: 1000 };
  const pods = benchPods(size);
  const policies = benchPolicies(size);
  const local = pods.filter(({ isLocal }) => isLocal);

  it("has one policy on each pod of the node, and each policy selects one pod", () => {
    assert.equal(local.length, LOCAL_PODS);
    for (const pod of local) assert.equal(policies.filter((policy) => selects(policy, pod)).length, 1, pod.name);
    for (const policy of policies) {
      assert.equal(pods.filter((pod) => selects(policy, pod)).length, 1, policy.name);
    }
    const onNode = pods.map((pod) => JSON.stringify(podManifest(pod)).includes(`"${NODE}"`)).filter(Boolean);
    assert.equal(onNode.length, LOCAL_PODS);
  });

  it("localPolicy puts equally many policies on each of the node's pods, each with its own peer", () => {
    const all = Array.from({ length: 5 * LOCAL_PODS }, (_, number) => localPolicy(number));
    for (const pod of local) {
      const own = all.filter((policy) => selects(policy, pod));
      assert.equal(own.length, 5, pod.name);
      assert.equal(new Set(own.map(({ near }) => near.app)).size, 5, pod.name);
      assert.equal(new Set(own.map(({ far }) => `${far.team} ${far.role}`)).size, 1, pod.name);
      const near = own.map((policy) => pods.filter((peer) => peer.namespace === pod.namespace && admits(policy, peer)));
      assert.ok(
        near.every((peers) => peers.length > 0),
        pod.name,
      );
    }
  });

  it("agrees with the evaluator on which pods are admitted", () => {
    const ask = asker([...baseManifests(size), ...policies.map(policyManifest)]);
    const random = mulberry32(6);
    const answers = { yes: 0, no: 0 };
    for (let round = 0; round < 3000; round++) {
      const from = benchPod(Math.floor(random() * size.pods));
      const to = benchPod(Math.floor(random() * size.pods));
      if (from.number === to.number) continue;
      const own = policies.filter((policy) => selects(policy, to));
      const expected = own.length === 0 || own.some((policy) => admits(policy, from));
      assert.equal(ask(from, to), expected, `${from.name} to ${to.name}`);
      answers[expected ? "yes" : "no"]++;
    }
    assert.ok(answers.yes > 30 && answers.no > 1000, JSON.stringify(answers));
  });

  it("has remote pods whose arrival and new labels affect policies of the node", () => {
    const onNode = policies.filter((policy) => local.some((pod) => selects(policy, pod)));
    for (let number = size.pods; number < size.pods + 200; number++) {
      const pod = pertinentPod(number);
      const before = onNode.filter((policy) => admits(policy, pod)).map(({ name }) => name);
      const after = onNode.filter((policy) => admits(policy, relabelled(pod))).map(({ name }) => name);
      assert.ok(before.length >= 2 && before.join() !== after.join(), pod.name);
    }
  });

  it("has a crowd whose client only the last policy admits", () => {
    const many = crowd(50);
    const admitting = many.policies.flatMap((policy, number) => (admits(policy, many.client) ? [number] : []));
    assert.deepEqual(admitting, [49]);
    assert.ok(many.policies.every((policy) => selects(policy, many.server)));
    const base = [...namespaceManifests(), nodeManifest(), ...many.pods.map(podManifest)];
    const manifests = many.policies.map(policyManifest);
    assert.equal(asker([...base, ...manifests])(many.client, many.server), true);
    assert.equal(asker([...base, ...manifests.slice(0, -1)])(many.client, many.server), false);
  });
});
