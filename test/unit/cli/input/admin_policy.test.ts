import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { asClusterNetworkPolicies } from "../../../../cli/input/admin_policy.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { findingsOf } from "../../../support/cli/lint_case.ts";
import { manifest } from "../../../support/cli/objects.ts";

const admin = (spec: object, kind = "AdminNetworkPolicy"): object => ({
  apiVersion: "policy.networking.k8s.io/v1alpha1",
  kind,
  metadata: { name: "default" },
  spec: { subject: { namespaces: {} }, ...spec },
});

const converted = (source: object): readonly unknown[] => {
  const conversion = asClusterNetworkPolicies(source);
  assert.equal(conversion.type, "converted");
  return parseAllDocuments(conversion.yaml).map((document) => {
    const value: unknown = document.toJS();
    return value;
  });
};

const refusal = (source: object): string | undefined => {
  const conversion = asClusterNetworkPolicies(source);
  return conversion.type === "refused" ? conversion.problem : undefined;
};

const team = { namespaces: { matchLabels: { team: "a" } } };

describe("AdminNetworkPolicy as ClusterNetworkPolicy", () => {
  it("LINT-10: a v1alpha1 policy is reported with its v1beta1 form", () => {
    const rules = "spec: { priority: 1, subject: { namespaces: {} } }";
    assert.deepEqual(findingsOf("admin-network-policy", manifest("AdminNetworkPolicy", "name: a", rules)), [
      "AdminNetworkPolicy a: is of v1alpha1, which nothing here enforces (replace it by the ClusterNetworkPolicy below)",
    ]);
    assert.deepEqual(findingsOf("invalid", manifest("AdminNetworkPolicy", "name: a", rules)), []);
    assert.deepEqual(findingsOf("admin-network-policy", manifest("BaselineAdminNetworkPolicy", "name: default")), [
      'BaselineAdminNetworkPolicy default: is of v1alpha1, which nothing here enforces (write it as ClusterNetworkPolicy of policy.networking.k8s.io/v1beta1; it cannot be made of this one: spec.subject: "nothing"; expected exactly one of namespaces, pods)',
    ]);
    assert.deepEqual(
      findingsOf(
        "admin-network-policy",
        manifest("ClusterNetworkPolicy", "name: a", rules.replace("{ priority", "{ tier: Admin, priority")),
      ),
      [],
    );
  });

  it("LINT-10: actions, tiers and ports get their new names", () => {
    const ports = [
      { portNumber: { protocol: "TCP", port: 80 } },
      { portRange: { protocol: "UDP", start: 1, end: 9 } },
      { portRange: { protocol: "SCTP", start: 7, end: 7 } },
      { namedPort: "http" },
    ];
    assert.deepEqual(
      converted(
        admin({
          priority: 5,
          ingress: [{ name: "in", action: "Allow", from: [team], ports }],
          egress: [{ action: "Pass", to: [{ networks: ["10.0.0.0/8"] }] }],
        }),
      ),
      [
        {
          apiVersion: "policy.networking.k8s.io/v1beta1",
          kind: "ClusterNetworkPolicy",
          metadata: { name: "default" },
          spec: {
            tier: "Admin",
            priority: 5,
            subject: { namespaces: {} },
            ingress: [
              {
                name: "in",
                action: "Accept",
                from: [team],
                protocols: [
                  { tcp: { destinationPort: { number: 80 } } },
                  { udp: { destinationPort: { range: { start: 1, end: 9 } } } },
                  { sctp: { destinationPort: { number: 7 } } },
                  { destinationNamedPort: "http" },
                ],
              },
            ],
            egress: [{ action: "Pass", to: [{ networks: ["10.0.0.0/8"] }] }],
          },
        },
      ],
    );
    const [baseline] = converted(admin({ ingress: [{ action: "Deny", from: [team] }] }, "BaselineAdminNetworkPolicy"));
    assert.partialDeepStrictEqual(baseline, {
      spec: { tier: "Baseline", priority: 1000, ingress: [{ action: "Deny" }] },
    });
  });

  it("LINT-10: lists that are too long become several rules and policies, in the same order", () => {
    const peers = Array.from({ length: 30 }, (_, i) => ({ namespaces: { matchLabels: { n: `${i}` } } }));
    const rules = Array.from({ length: 26 }, (_, i) => ({
      name: `r${i}`,
      action: "Deny",
      from: i === 0 ? peers : [team],
    }));
    const parts = converted(admin({ priority: 5, ingress: rules }));
    const names = (part: unknown): readonly string[] => JSON.stringify(part).match(/"r\d+"/g) ?? [];
    assert.deepEqual(
      parts.map((part) => names(part).length),
      [25, 2],
    );
    assert.deepEqual(parts.flatMap(names), ['"r0"', ...rules.map(({ name }) => `"${name}"`)]);
    assert.partialDeepStrictEqual(parts, [
      { metadata: { name: "default-1" }, spec: { priority: 5 } },
      { metadata: { name: "default-2" }, spec: { priority: 6 } },
    ]);
    assert.equal(
      refusal(admin({ priority: 1000, ingress: rules })),
      "spec.priority: 1001; expected an integer from 0 to 1000",
    );
  });

  it("LINT-10: a subject and a peer without podSelector are for all pods of their namespaces", () => {
    const pods = { namespaceSelector: { matchLabels: { team: "a" } } };
    const [policy] = converted(
      admin({ priority: 5, subject: { pods }, egress: [{ action: "Deny", to: [{ pods }, { networks: ["::/0"] }] }] }),
    );
    const whole = { pods: { ...pods, podSelector: {} } };
    assert.partialDeepStrictEqual(policy, {
      spec: { subject: whole, egress: [{ to: [whole, { networks: ["::/0"] }] }] },
    });
  });

  it("LINT-10: lint and the other commands say why a v1alpha1 policy cannot become a v1beta1 one", async () => {
    const file = manifest(
      "AdminNetworkPolicy",
      "name: a",
      'spec: { priority: 1, subject: { namespaces: {} }, egress: [{ action: Deny, to: [{ networks: ["10.0.0.0/40"] }] }] }',
    );
    const reason = /it cannot be made of this one: spec\.egress\[0\]\.to\[0\]\.networks\[0\]: "10\.0\.0\.0\/40"/;
    assert.match(findingsOf("admin-network-policy", file).join(""), reason);
    const { code, err } = await runCli(["policy", "matrix", "-f", "a.yaml"], memoryFiles({ "a.yaml": file }));
    assert.equal(code, 3);
    assert.match(err, reason);
    assert.equal(refusal(admin({})), "spec.priority: missing; expected an integer from 0 to 1000");
    assert.equal(refusal(admin({ priority: "high" })), 'spec.priority: "high"; expected an integer from 0 to 1000');
    assert.equal(refusal({ kind: "AdminNetworkPolicy" }), "metadata.name: missing; expected a name");
  });
});
