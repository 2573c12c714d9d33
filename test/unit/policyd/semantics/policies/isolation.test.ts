import assert from "node:assert/strict";
import { labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { allowed, ask, indexOf } from "../../../../support/policy/question.ts";
import { KEYS, threeByThree } from "../../../../support/policy/three_by_three.ts";

const A = labelled({ pod: "a" });
const PAIRS = KEYS.flatMap((from) => KEYS.map((to) => [from, to] as const));

const withPolicies = (...policies: readonly object[]) => indexOf([...threeByThree(), ...policies]);
const kind = (index: ReturnType<typeof indexOf>, from: string, to: string, traffic?: string) =>
  ask(index, [from, to], traffic).kind;

describe("policyd/semantics/policies: isolation", () => {
  it("POL-01: without a policy everything is allowed, also to and from nodes and the outside", () => {
    const index = withPolicies();
    assert.equal(allowed(index, PAIRS).length, PAIRS.length);
    for (const [from, to] of [
      ["192.0.2.1", "x/a"],
      ["x/a", "192.0.2.1"],
      ["node/node-y", "x/a"],
    ] as const) {
      assert.equal(kind(index, from, to), "allowed");
    }
    const verdict = ask(index, ["x/a", "y/b"]);
    assert.ok(verdict.kind === "allowed");
    assert.deepEqual(verdict.egress, {
      isAllowed: true,
      decision: { type: "default" },
      passed: [],
      isolatedBy: [],
      nearest: undefined,
      shadow: undefined,
    });
  });

  it("POL-02 POL-14: a policy isolates only in the directions of its types", () => {
    const ingress = withPolicies(networkPolicy("x", { podSelector: A, policyTypes: ["Ingress"] }));
    assert.deepEqual([kind(ingress, "y/a", "x/a"), kind(ingress, "x/a", "y/a")], ["denied", "allowed"]);
    const egress = withPolicies(networkPolicy("x", { podSelector: A, policyTypes: ["Egress"] }));
    assert.deepEqual([kind(egress, "y/a", "x/a"), kind(egress, "x/a", "y/a")], ["allowed", "denied"]);
  });

  it("POL-08: only the direction in which a connection begins is evaluated, and answers need no rule", () => {
    const policy = { podSelector: A, policyTypes: ["Ingress", "Egress"], egress: [{ to: [{ podSelector: {} }] }] };
    const index = withPolicies(networkPolicy("x", policy));
    assert.deepEqual([kind(index, "x/a", "x/b"), kind(index, "x/b", "x/a")], ["allowed", "denied"]);
  });

  it("POL-03: pods that no policy selects are not restricted", () => {
    const index = withPolicies(networkPolicy("x", { podSelector: A, policyTypes: ["Ingress", "Egress"] }));
    const others = PAIRS.filter(([from, to]) => from !== "x/a" && to !== "x/a");
    assert.equal(allowed(index, others).length, others.length);
  });

  it("POL-04: policies add up in any order", () => {
    const rules = [
      networkPolicy("x", { podSelector: A, ingress: [] }, "none"),
      networkPolicy("x", { podSelector: A, ingress: [{ from: [{ podSelector: labelled({ pod: "b" }) }] }] }, "b"),
      networkPolicy("x", { podSelector: {}, ingress: [{ ports: [{ port: 81 }] }] }, "81"),
    ];
    for (const policies of [rules, rules.toReversed()]) {
      const index = withPolicies(...policies);
      assert.deepEqual(
        allowed(index, [
          ["x/b", "x/a"],
          ["x/c", "x/a"],
        ]),
        ["x/b -> x/a"],
      );
      assert.deepEqual(
        allowed(
          index,
          [
            ["x/b", "x/a"],
            ["x/c", "x/a"],
          ],
          "81/TCP",
        ),
        ["x/b -> x/a", "x/c -> x/a"],
      );
      const verdict = ask(index, ["x/b", "x/a"]);
      assert.ok(verdict.kind === "allowed");
      assert.deepEqual(verdict.ingress.isolatedBy, ["x/81", "x/b", "x/none"]);
      assert.deepEqual(verdict.ingress.decision, {
        type: "rule",
        rule: { policy: "x/b", rule: 0, peer: 0, port: undefined },
      });
    }
  });

  it("POL-05: the source's egress and the destination's ingress must both allow a connection", () => {
    const toB = networkPolicy("x", {
      podSelector: A,
      policyTypes: ["Egress"],
      egress: [{ to: [{ namespaceSelector: {} }] }],
    });
    const deny = networkPolicy("y", { podSelector: {}, policyTypes: ["Ingress"] });
    const verdict = ask(withPolicies(toB, deny), ["x/a", "y/a"]);
    assert.ok(verdict.kind === "denied");
    assert.deepEqual([verdict.egress.isAllowed, verdict.ingress.isAllowed], [true, false]);
    const both = ask(withPolicies(networkPolicy("x", { podSelector: {}, policyTypes: ["Egress"] }), deny), [
      "x/a",
      "y/a",
    ]);
    assert.ok(both.kind === "denied");
    assert.deepEqual([both.egress.isAllowed, both.ingress.isAllowed], [false, false]);
  });

  it("POL-06: no policy keeps a pod from itself, by its own address or through its Service", () => {
    const index = withPolicies(networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }));
    for (const isThroughService of [false, true]) {
      const verdict = ask(index, ["x/a", "x/a"], "80/TCP", { isThroughService });
      assert.ok(verdict.kind === "allowed");
      assert.deepEqual(verdict.ingress.decision, { type: "exempt", because: "itself" });
    }
    assert.equal(kind(index, "x/b", "x/a"), "denied");
    assert.equal(kind(index, "10.244.1.1", "x/a"), "allowed", "by its address");
  });

  it("POL-07: a pod and its own node always reach each other, and other nodes are restricted", () => {
    const index = withPolicies(networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }));
    assert.deepEqual(
      allowed(index, [
        ["node/node-x", "x/a"],
        ["10.240.0.1", "x/a"],
        ["x/a", "node/node-x"],
        ["node/node-y", "x/a"],
        ["x/a", "node/node-y"],
        ["10.240.0.2", "x/a"],
      ]),
      ["node/node-x -> x/a", "10.240.0.1 -> x/a", "x/a -> node/node-x"],
    );
    const verdict = ask(index, ["node/node-x", "x/a"]);
    assert.ok(verdict.kind === "allowed");
    assert.deepEqual(verdict.ingress.decision, { type: "exempt", because: "own node" });
  });

  it("POL-07: with policePodToOwnNode a pod's egress rules apply to its node, and the node still reaches the pod", () => {
    const deny = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    const index = indexOf([...threeByThree(), deny], { policePodToOwnNode: true });
    assert.deepEqual(
      allowed(index, [
        ["node/node-x", "x/a"],
        ["x/a", "node/node-x"],
      ]),
      ["node/node-x -> x/a"],
    );
  });

  it("POL-07: a pod that is on no node yet has no own node, also for pods of the host's network", () => {
    const pods = ["waiting", "host"].map((name) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "x" },
      spec: name === "host" ? { hostNetwork: true } : {},
    }));
    const deny = networkPolicy("x", { podSelector: {}, policyTypes: ["Ingress"] });
    assert.equal(kind(indexOf([...threeByThree(), ...pods, deny]), "x/host", "x/waiting"), "denied");
  });

  it("POL-10: podSelector selects in the policy's own namespace", () => {
    const index = withPolicies(networkPolicy("x", { podSelector: A, ingress: [] }));
    assert.deepEqual(
      allowed(index, [
        ["z/c", "x/a"],
        ["z/c", "x/b"],
        ["z/c", "y/a"],
      ]),
      ["z/c -> x/b", "z/c -> y/a"],
    );
    const all = withPolicies(networkPolicy("x", { ingress: [] }));
    assert.deepEqual(
      allowed(all, [
        ["z/c", "x/a"],
        ["z/c", "x/b"],
        ["z/c", "y/a"],
      ]),
      ["z/c -> y/a"],
    );
  });

  const expressions: readonly (readonly [object, readonly string[]])[] = [
    [{ key: "pod", operator: "In", values: ["a", "b"] }, ["x/a", "x/b"]],
    [{ key: "pod", operator: "NotIn", values: ["a", "b"] }, ["x/c"]],
    [{ key: "absent", operator: "NotIn", values: ["a"] }, ["x/a", "x/b", "x/c"]],
    [{ key: "pod", operator: "Exists" }, ["x/a", "x/b", "x/c"]],
    [{ key: "constructor", operator: "Exists" }, []],
    [{ key: "pod", operator: "DoesNotExist" }, []],
    [{ key: "absent", operator: "DoesNotExist" }, ["x/a", "x/b", "x/c"]],
  ];
  for (const [requirement, selected] of expressions) {
    it(`POL-10: ${JSON.stringify(requirement)} selects ${selected.join(" ") || "nothing"}`, () => {
      const index = withPolicies(
        networkPolicy("x", { podSelector: { matchExpressions: [requirement] }, policyTypes: ["Ingress"] }),
      );
      assert.deepEqual(
        ["x/a", "x/b", "x/c"].filter((key) => kind(index, "z/c", key) === "denied"),
        selected,
      );
    });
  }

  it("POL-10: all requirements of a selector must be met", () => {
    const podSelector = {
      matchLabels: { pod: "a" },
      matchExpressions: [{ key: "pod", operator: "In", values: ["b"] }],
    };
    const index = withPolicies(networkPolicy("x", { podSelector, policyTypes: ["Ingress"] }));
    assert.equal(allowed(index, PAIRS).length, PAIRS.length);
  });

  it("POL-11: without policyTypes a policy is for Ingress, and for Egress if it has an egress rule", () => {
    const flows = [
      ["y/a", "x/a"],
      ["x/a", "y/a"],
    ] as const;
    assert.deepEqual(allowed(withPolicies(networkPolicy("x", {})), flows), ["x/a -> y/a"]);
    assert.deepEqual(allowed(withPolicies(networkPolicy("x", { egress: [] })), flows), ["x/a -> y/a"]);
    const port = { ports: [{ port: 443 }] };
    assert.deepEqual(allowed(withPolicies(networkPolicy("x", { egress: [port] })), flows), []);
    assert.deepEqual(
      allowed(withPolicies(networkPolicy("x", { policyTypes: ["Egress"], ingress: [port], egress: [{}] })), flows),
      ["y/a -> x/a", "x/a -> y/a"],
    );
  });

  it("POL-12: a type without a rule denies its direction", () => {
    const flows = [
      ["y/a", "x/a"],
      ["x/a", "y/a"],
    ] as const;
    for (const rules of [{}, { ingress: [], egress: [] }, { ingress: null, egress: null }]) {
      const only = (...policyTypes: readonly string[]) =>
        allowed(withPolicies(networkPolicy("x", { policyTypes, ...rules })), flows);
      assert.deepEqual(only("Ingress"), ["x/a -> y/a"]);
      assert.deepEqual(only("Egress"), ["y/a -> x/a"]);
      assert.deepEqual(only("Ingress", "Egress"), []);
    }
  });

  it("POL-13: the rule {} allows everything, beside policies that allow nothing", () => {
    const deny = networkPolicy("x", { policyTypes: ["Ingress", "Egress"] }, "deny");
    const allow = networkPolicy("x", { policyTypes: ["Ingress", "Egress"], ingress: [{}], egress: [{}] }, "allow");
    const index = withPolicies(deny, allow);
    assert.equal(allowed(index, PAIRS).length, PAIRS.length);
    for (const traffic of ["9/SCTP", "53/UDP", "ICMP"]) {
      assert.deepEqual(
        allowed(
          index,
          [
            ["192.0.2.1", "x/a"],
            ["x/a", "192.0.2.1"],
          ],
          traffic,
        ).length,
        2,
        traffic,
      );
    }
  });
});
