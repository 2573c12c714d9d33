import { assertFindings, policy } from "../../../support/cli/lint_case.ts";
import { manifest } from "../../../support/cli/objects.ts";

describe("policy lint of fields that the API does not have", () => {
  it("LINT-10: a label beside matchLabels is found: the field is dropped, and the selector selects everything", () => {
    const fix = "(a selector has matchLabels and matchExpressions: write a label below matchLabels)";
    const dropped = (name: string): string =>
      `NetworkPolicy shop/p: the field ${name} is not a field of NetworkPolicy and is dropped`;
    const selector = (name: string): string => `${dropped(name)}, and the selector selects more ${fix}`;
    const other = "(delete it, or correct its name)";
    const expression = "matchExpressions: [{ key: app, operator: Exists, value: web }]";
    assertFindings("not-expressible", [
      [policy("p", "podSelector: { app: web }"), selector("app")],
      [policy("p", "podSelector: { matchLabels: { app: web } }, ingress: [{ from: [{ podSelector: {} }] }]")],
      [policy("p", "podSelector: {}, ingress: [{ from: [{ podSelector: { app: web } }] }]"), selector("app")],
      [policy("p", "podSelector: {}, egress: [{ to: [{ namespaceSelector: { team: a } }] }]"), selector("team")],
      [policy("p", `podSelector: { ${expression} }`), `${dropped("value")} ${other}`],
      [
        policy("p", "podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8, exept: [10.1.0.0/16] } }] }]"),
        `${dropped("exept")} ${other}`,
      ],
      [
        manifest("NetworkPolicy", "name: p, namespace: shop", "spec: { podSelector: {} }, ingress: [{}]"),
        `${dropped("ingress")} ${other}`,
      ],
    ]);
  });

  it("LINT-10: unknown fields of a ClusterNetworkPolicy, whose loss makes it match more, are found", () => {
    const cluster = (subject: string, rule: string): string =>
      manifest(
        "ClusterNetworkPolicy",
        "name: c",
        `spec: { tier: Admin, priority: 1, subject: { ${subject} }, ingress: [{ action: Accept, ${rule} }] }`,
      );
    const dropped = (name: string): string =>
      `ClusterNetworkPolicy c: the field ${name} is not a field of ClusterNetworkPolicy and is dropped`;
    const fix = "(a selector has matchLabels and matchExpressions: write a label below matchLabels)";
    const all = "from: [{ namespaces: {} }]";
    assertFindings("not-expressible", [
      [
        cluster(
          "namespaces: { matchLabels: { env: prod } }",
          `${all}, protocols: [{ tcp: { destinationPort: { number: 1 } } }]`,
        ),
      ],
      [cluster("namespaces: { env: prod }", all), `${dropped("env")}, and the selector selects more ${fix}`],
      [
        cluster("namespaces: {}", "from: [{ namespaces: { env: prod } }]"),
        `${dropped("env")}, and the selector selects more ${fix}`,
      ],
      [
        cluster("namespaces: {}", "from: [{ pods: { podSelector: { app: web } } }]"),
        `${dropped("app")}, and the selector selects more ${fix}`,
      ],
      [
        cluster("namespaces: {}", `${all}, ports: [{ port: 80 }]`),
        `${dropped("ports")} (delete it, or correct its name)`,
      ],
    ]);
  });
});
