import assert from "node:assert/strict";
import { pairsThat, UnnamedEnds } from "../../../../../cli/policy/diff/diff.ts";
import { endsOf } from "../../../../../cli/policy/diff/end_class.ts";
import type { PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { indexOf } from "../../../../support/policy/question.ts";

const PODS = 20;

/** Returns pods each of which a policy lets the pod before it reach. */
function ring(port: number): PolicyIndex {
  return indexOf(
    Array.from({ length: PODS }, (_, number) => {
      const [own, before] = [number, (number + PODS - 1) % PODS].map((one) => ({ matchLabels: { app: `a${one}` } }));
      const ingress = [{ from: [{ podSelector: before }], ports: [{ port }] }];
      const pod = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `p${number}`, namespace: "shop", labels: { app: `a${number}` } },
        spec: { nodeName: "node1", containers: [{ name: "server" }] },
        status: { phase: "Running", podIP: `10.0.0.${number + 1}` },
      };
      const policy = {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        metadata: { name: `q${number}`, namespace: "shop" },
        spec: { podSelector: own, ingress },
      };
      return [pod, policy];
    }).flat(),
  );
}

/** Returns the pairs of ends that are not recognized, as `p0 > p1`. */
function unrecognized(before: PolicyIndex, after: PolicyIndex): readonly string[] {
  const sides = { before, after };
  const unnamed = new UnnamedEnds(sides);
  const ends = endsOf(sides, "pod").classes.flatMap((one) => one.ends);
  return ends.flatMap((from) =>
    ends
      .filter((to) => !unnamed.areAlike(from, to))
      .map((to) => [from, to].map(({ group }) => group.name.replace("shop/", "")).join(" > ")),
  );
}

describe("cli/policy/diff/unnamed_ends", () => {
  const pods = Array.from({ length: PODS }, (_, number) => `p${number}`);
  const outside = (pairs: readonly string[]): readonly string[] => pairs.filter((pair) => !pair.includes("outside"));

  it("only pairs of a pod and itself, and those that a rule names, need an evaluation where all policies changed", () => {
    const expected = pods.flatMap((to, number) => [`${pods.at(number - 1)} > ${to}`, `${to} > ${to}`]);
    assert.deepEqual(outside(unrecognized(ring(80), ring(81))).toSorted(), expected.toSorted());
  });
});

describe("cli/policy/diff: pairs of classes", () => {
  it("pairsThat yields the wanted pairs that pass a test in the order of their sources, and of their destinations for each source", () => {
    for (const count of [0, 1, 63, 64, 65, 130]) {
      const all = Array.from({ length: count }, (_, i) => i);
      const [isSource, isDestination] = [(one: number) => one % 3 === 0, (one: number) => one % 4 === 0];
      const passes = (from: number, to: number): boolean => (from * 7 + to * 3) % 5 === 0;
      const isWanted = (from: number, to: number): boolean => (isSource(from) || isDestination(to)) && passes(from, to);
      const expected = all.flatMap((from) => all.filter((to) => isWanted(from, to)).map((to) => [from, to]));
      assert.deepEqual([...pairsThat({ isSource, isDestination, passes }, all)], expected);
    }
  });
});
