import assert from "node:assert/strict";
import { assertFindings, findingsOf, pod, policy } from "../../../support/cli/lint_case.ts";
import { ask, node, service, workload } from "../../../support/cli/objects.ts";

const PODS = pod("web") + pod("db");

describe("policy lint: fixes that would cut what is in use", () => {
  it("LINT-10: a rule in a policy that is redundant covers no rule of another, so that both findings may be followed", () => {
    const rule = (port: number): string => `{ from: [{ podSelector: {} }], ports: [{ port: ${port} }] }`;
    const web = (name: string, ...rules: readonly string[]): string =>
      policy(name, `podSelector: { matchLabels: { app: web } }, ingress: [${rules.join(", ")}]`);
    const text = PODS + web("p1", rule(80)) + web("p2", rule(80), rule(90));
    assert.deepEqual([findingsOf("redundant", text).length, findingsOf("shadowed", text)], [1, []]);
  });

  it("LINT-10: a policy that lets the only pod of a workload reach others of it is not redundant, as it may be scaled", () => {
    const db = "podSelector: { matchLabels: { app: db } }";
    const policies = policy("all", "podSelector: {}") + policy("db", `${db}, ingress: [{ from: [{ ${db} }] }]`);
    const one = workload("StatefulSet", "shop/db").replace("spec: {", "spec: { replicas: 1,");
    assert.deepEqual(findingsOf("redundant", one + policies), []);
    assert.equal(findingsOf("redundant", pod("db") + policies).length, 1, "a pod without a controller");
  });

  it("LINT-10 POL-50: a policy that closes what its name says, or whose name also says that it allows, is not taken for a mistake", () => {
    assertFindings("not-expressible", [
      [
        policy("deny-ingress", "podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}]"),
        "NetworkPolicy shop/deny-ingress: is called deny-ingress and allows all ingress: rules allow, the rule {} everything (delete the rule to close the direction, or rename the policy)",
      ],
      [policy("deny-all-ingress", "podSelector: {}, policyTypes: [Ingress, Egress], egress: [{}]")],
      [policy("default-deny", "podSelector: {}, policyTypes: [Ingress, Egress], egress: [{}]")],
      [policy("default-deny-egress", "podSelector: {}, policyTypes: [Egress], ingress: [{}]")],
      [policy("allow-drop-box", "podSelector: {}, ingress: [{}]")],
    ]);
  });

  it("LINT-10: a port is not taken for a Service's where a destination pod has no Service or declares the port", () => {
    const declares = "containers: [{ ports: [{ name: http, containerPort: 80 }] }]";
    const served = service("shop/web", "web", "{ port: 80, targetPort: 8080 }");
    const rule = "ingress: [{ ports: [{ port: 80 }] }]";
    assert.deepEqual(findingsOf("service-port", PODS + served + policy("p", `podSelector: {}, ${rule}`)), []);
    const web = served + policy("p", `podSelector: { matchLabels: { app: web } }, ${rule}`);
    assert.deepEqual(findingsOf("service-port", pod("web", { spec: declares }) + web), []);
    assert.equal(findingsOf("service-port", PODS + web).length, 1);
  });

  it("LINT-10: a range with other addresses than those of Services, or of a node, is info", async () => {
    const to = policy("p", "podSelector: {}, egress: [{ to: [{ ipBlock: { cidr: 10.0.0.0/8 } }] }]");
    const text = service("shop/web", "web", "{ port: 80 }", "clusterIP: 10.96.0.10") + to;
    const { code, out } = await ask(text, "policy", "lint", "--only", "service-address");
    assert.deepEqual([code, / info +service-address /.test(out)], [0, true], out);
    const but = (except: string): string =>
      policy("q", `podSelector: {}, egress: [{ to: [{ ipBlock: { cidr: 0.0.0.0/0, except: [${except}] } }] }]`);
    const codes = ["192.168.0.0/16", "192.168.0.1/32"].map(async (except) => {
      const asked = await ask(node("n1", "192.168.0.1") + but(except), "policy", "lint", "--only", "not-expressible");
      return [asked.code, asked.out.includes("does not cut off node n1")];
    });
    assert.deepEqual(await Promise.all(codes), [
      [0, true],
      [1, true],
    ]);
  });
});
