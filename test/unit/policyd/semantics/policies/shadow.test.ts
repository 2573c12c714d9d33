import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { describePolicyVerdict } from "../../../../../policyd/semantics/policies/print.ts";
import type { EvaluatedFlow } from "../../../../../policyd/semantics/policies/verdict.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

const FROM_A = { from: [{ podSelector: { matchLabels: { pod: "a" } } }], ports: [{ port: 80 }] };

function networkPolicy(name: string, spec: object, shadow?: string): object {
  const annotations = shadow === undefined ? {} : { annotations: { "drawbridge.dev/shadow": shadow } };
  const metadata = { name, namespace: "x", ...annotations };
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec };
}

function adminPolicy(tier: string, action: string): object {
  const rule = { action, from: [{ namespaces: {} }] };
  const spec = { tier, priority: 1, subject: { namespaces: {} }, ingress: [rule] };
  return {
    apiVersion: "policy.networking.k8s.io/v1alpha2",
    kind: "ClusterNetworkPolicy",
    metadata: { name: "c" },
    spec,
  };
}

function judge(objects: readonly object[], from: string, to: string, traffic?: string): EvaluatedFlow {
  const verdict = ask(indexOf([...threeByThree(), ...objects]), [from, to], traffic);
  assert.ok(verdict.kind !== "impossible");
  return verdict;
}

const SHADOW = networkPolicy("try", { podSelector: {}, ingress: [FROM_A] }, "true");

describe("policyd/semantics/policies: policies in shadow", () => {
  it("POL-70: a policy in shadow isolates no pod, and the verdict says what it would deny and which rule is nearest", () => {
    const verdict = judge([SHADOW], "x/b", "x/c");
    assert.equal(verdict.kind, "allowed");
    assert.deepEqual(verdict.ingress.decision, { type: "default" });
    assert.deepEqual(verdict.ingress.isolatedBy, []);
    assert.equal(verdict.ingress.shadow?.wouldDrop, true);
    assert.deepEqual(verdict.ingress.shadow.policies, ["x/try"]);
    assert.equal(verdict.ingress.shadow.nearest?.policy, "x/try");
    assert.equal(verdict.egress.shadow, undefined);
    assert.deepEqual(describePolicyVerdict({ protocol: "TCP", port: 80 }, verdict).slice(-2), [
      "  shadow: x/try would deny it",
      "  nearest: x/try ingress[0], from[0], ports[0], but the pod has not pod=a",
    ]);
  });

  it("POL-70: traffic that a rule of a shadow policy allows would not be dropped", () => {
    const { ingress } = judge([SHADOW], "x/a", "x/c");
    assert.equal(ingress.shadow?.wouldDrop, false);
    assert.equal(ingress.shadow.decision.type, "rule");
    assert.equal(judge([SHADOW], "x/a", "x/c", "81/TCP").ingress.shadow?.wouldDrop, true);
  });

  it("POL-70: for pods that other policies isolate, a shadow policy could only allow more", () => {
    const deny = networkPolicy("deny", { podSelector: {} });
    const fromB = judge([SHADOW, deny], "x/b", "x/c");
    assert.equal(fromB.kind, "denied");
    assert.deepEqual(fromB.ingress.isolatedBy, ["x/deny"]);
    assert.equal(fromB.ingress.shadow?.wouldDrop, false);
    const fromA = judge([SHADOW, deny], "x/a", "x/c");
    assert.equal(fromA.kind, "denied");
    assert.equal(fromA.ingress.shadow?.decision.type, "rule");
    assert.match(
      describePolicyVerdict({ protocol: "TCP", port: 80 }, fromA).join("\n"),
      /shadow: would be allowed by NetworkPolicy x\/try ingress\[0\]/,
    );
  });

  it("POL-70: a shadow policy does not apply to what the Admin tier decides, and does to what the Baseline tier denies", () => {
    for (const action of ["Accept", "Deny"]) {
      assert.equal(judge([SHADOW, adminPolicy("Admin", action)], "x/b", "x/c").ingress.shadow, undefined);
    }
    assert.equal(judge([SHADOW, adminPolicy("Admin", "Pass")], "x/b", "x/c").ingress.shadow?.wouldDrop, true);
    const baseline = judge([SHADOW, adminPolicy("Baseline", "Deny")], "x/b", "x/c");
    assert.equal(baseline.kind, "denied");
    assert.equal(baseline.ingress.shadow?.wouldDrop, true);
  });

  it("POL-70: a pod itself and its own node are exempt from shadow policies, too", () => {
    const both = networkPolicy("try", { podSelector: {}, policyTypes: ["Ingress", "Egress"] }, "true");
    assert.equal(judge([both], "x/a", "x/a").ingress.shadow, undefined);
    assert.equal(judge([both], "node/node-x", "x/a").ingress.shadow, undefined);
    assert.equal(judge([both], "x/a", "node/node-x").egress.shadow, undefined);
    assert.equal(judge([both], "x/a", "node/node-y").egress.shadow?.wouldDrop, true);
  });

  it("POL-71: any other value than true leaves the policy in force", () => {
    for (const value of ["false", "True", "yes", "", " true", "1"]) {
      const verdict = judge([networkPolicy("try", { podSelector: {} }, value)], "x/b", "x/c");
      assert.equal(verdict.kind, "denied", value);
      assert.equal(verdict.ingress.shadow, undefined);
    }
  });
});

describe("policyd/semantics/policies: the node's own DNS", () => {
  const DNS = { nodeLocalDNS: [parseAddress("169.254.20.10"), parseAddress("fd00::a")] };
  const closed = networkPolicy("closed", { podSelector: {}, policyTypes: ["Ingress", "Egress"] });

  it("POL-72: NetworkPolicies keep no pod from port 53 of the node's DNS cache, but from its other ports", () => {
    const index = indexOf([...threeByThree(), closed], DNS);
    const kindOf = (to: string, traffic: string): string => ask(index, ["x/a", to], traffic).kind;
    assert.equal(kindOf("169.254.20.10", "53/UDP"), "allowed");
    assert.equal(kindOf("169.254.20.10", "53/TCP"), "allowed");
    assert.equal(kindOf("169.254.20.10", "53/SCTP"), "denied");
    assert.equal(kindOf("169.254.20.10", "54/UDP"), "denied");
    assert.equal(kindOf("169.254.20.10", "ICMP"), "denied");
    assert.equal(kindOf("169.254.20.11", "53/UDP"), "denied");
    const verdict = ask(index, ["x/a", "169.254.20.10"], "53/UDP");
    assert.ok(verdict.kind === "allowed");
    assert.deepEqual(verdict.egress.decision, { type: "exempt", because: "node-local DNS" });
    const without = indexOf([...threeByThree(), closed]);
    assert.equal(ask(without, ["x/a", "169.254.20.10"], "53/UDP").kind, "denied");
  });

  it("POL-72: ClusterNetworkPolicies apply to the node's own DNS cache", () => {
    const spec = {
      tier: "Admin",
      priority: 1,
      subject: { namespaces: {} },
      egress: [{ action: "Deny", to: [{ networks: ["169.254.0.0/16"] }] }],
    };
    const deny = {
      apiVersion: "policy.networking.k8s.io/v1alpha2",
      kind: "ClusterNetworkPolicy",
      metadata: { name: "c" },
      spec,
    };
    const index = indexOf([...threeByThree(), closed, deny], DNS);
    assert.equal(ask(index, ["x/a", "169.254.20.10"], "53/UDP").kind, "denied");
  });
});
