import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { RULES } from "../../../../cli/policy/lint/rules.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";

const POD = `apiVersion: v1
kind: Pod
metadata: { name: web, namespace: shop, labels: { app: web } }
status: { phase: Running }
---
`;

const policy = (spec: string): string => `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: p, namespace: shop }
spec:
  podSelector: ${spec}
`;

interface Reported {
  readonly id: string;
  readonly severity: string;
  readonly line: number;
  readonly message: string;
  readonly documentation: string;
}

async function lint(
  text: string,
  ...args: readonly string[]
): Promise<{ code: number; reported: readonly Reported[] }> {
  const files = memoryFiles({ "a.yaml": text, "-": text });
  const { code, out } = await runCli(["policy", "lint", "-f", "a.yaml", "-o", "json", ...args], files);
  return { code, reported: JSON.parse(out) as Reported[] };
}

const idsOf = (reported: readonly Reported[]): readonly string[] =>
  reported.map(({ id, severity }) => `${severity} ${id}`);

describe("policy lint: intended findings", () => {
  it("LINT-04: a comment with a reason silences a finding on its line, on the next line, and at the object's beginning", async () => {
    const nobody = policy("{ matchLabels: { app: db } }");
    assert.deepEqual(idsOf((await lint(POD + nobody)).reported), ["warning selects-nothing"]);
    const comment = "# drawbridge:ignore selects-nothing the pods come with the next release\n";
    for (const text of [
      POD + comment + nobody,
      POD + comment + "# more words\n\n" + nobody,
      POD + nobody.replace("  podSelector", `  ${comment}  podSelector`),
      POD + nobody.replace("{ app: db } }", `{ app: db } } ${comment.trim()}`),
      (POD + comment + nobody).replaceAll("\n", "\r\n"),
    ]) {
      assert.deepEqual(await lint(text), { code: 0, reported: [] }, text);
    }
    const fromInput = await runCli(["policy", "lint", "-f", "-"], memoryFiles({ "-": POD + comment + nobody }));
    assert.deepEqual([fromInput.code, fromInput.out], [0, "no findings\n"]);
    const elsewhere = await lint(comment + POD + nobody);
    assert.deepEqual(idsOf(elsewhere.reported), ["info ignore-comment", "warning selects-nothing"]);
  });

  it("LINT-04: a comment without a reason, with an unknown ID or with nothing to silence is itself a finding", async () => {
    const nobody = policy("{ matchLabels: { app: db } }");
    for (const [comment, message] of [
      ["# drawbridge:ignore selects-nothing", /gives no reason for ignoring selects-nothing/],
      ["# drawbridge:ignore selects-nothin for a reason", /"selects-nothin" is not a rule/],
      ["# drawbridge:ignore", /"" is not a rule/],
    ] as const) {
      const { code, reported } = await lint(`${POD}${comment}\n${nobody}`);
      assert.deepEqual([code, idsOf(reported)], [1, ["warning ignore-comment", "warning selects-nothing"]]);
      assert.match(reported[0]?.message ?? "", message);
    }
    const useless = await lint(`${POD}# drawbridge:ignore dns-forgotten for a reason\n${policy("{}")}`);
    assert.deepEqual([useless.code, idsOf(useless.reported)], [0, ["info ignore-comment"]]);
    const other = await lint(
      `${POD}# drawbridge:ignore dns-forgotten for a reason\n${policy("{}")}`,
      "--only",
      "invalid",
    );
    assert.deepEqual(other.reported, []);
  });

  it("LINT-04: the text of an ignore comment in a value silences nothing", async () => {
    const nobody = policy("{ matchLabels: { app: db } }");
    const value = nobody.replace("name: p,", 'name: p, annotations: { a: "x#drawbridge:ignore selects-nothing y" },');
    assert.deepEqual(idsOf((await lint(POD + value)).reported), ["warning selects-nothing"]);
    const long = `${POD}#${" ".repeat(100_000)}drawbridge:ignore selects-nothing y\n${nobody}`;
    assert.deepEqual(idsOf((await lint(long)).reported), ["warning selects-nothing"]);
  });

  it("LINT-10: a direction closed on purpose, a policy that allows all, pods of an operator and labels of namespaces without their objects are info", async () => {
    const cases = [
      policy(
        "{ matchLabels: { app: web } }\n  policyTypes: [Ingress, Egress]\n  ingress: [{ from: [{ podSelector: {} }] }]",
      ),
      policy("{ matchLabels: { app: web } }\n  ingress: [{}]"),
      policy("{ matchLabels: { app: web } }\n  ingress: [{}, { ports: [{ port: 80 }] }]"),
      policy("{ matchLabels: { strimzi.io/cluster: events } }\n  ingress: [{}]"),
      policy(
        "{ matchLabels: { app: web } }\n  ingress: [{ from: [{ podSelector: { matchLabels: { strimzi.io/kind: Kafka } } }] }]",
      ),
    ];
    const expected = ["allows-nothing", "redundant", "shadowed", "selects-nothing", "allows-nothing"];
    // Without these, other policies would still close all that they close.
    const denyAll = `${policy("{}\n  policyTypes: [Ingress, Egress]").replace("name: p", "name: deny-all")}---\n`;
    cases.push(
      denyAll + policy("{ matchLabels: { app: web } }\n  policyTypes: [Ingress]"),
      denyAll + policy("{ matchLabels: { app: web } }\n  ingress: [{ from: [{ namespaceSelector: {} }] }]"),
      denyAll +
        policy(
          "{ matchLabels: { app: web } }\n  ingress: [{ from: [{ podSelector: { matchLabels: { a.org/b: c } } }] }]",
        ),
      `${denyAll}apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: { name: c }
spec: { tier: Admin, priority: 1, subject: { namespaces: {} }, ingress: [{ action: Deny, from: [{ namespaces: { matchLabels: { team: far } } }] }] }
`,
      `apiVersion: policy.networking.k8s.io/v1beta1
kind: ClusterNetworkPolicy
metadata: { name: c }
spec: { tier: Admin, priority: 1, subject: { namespaces: { matchLabels: { team: far } } } }
`,
    );
    expected.push("redundant", "redundant", "redundant", "redundant", "selects-nothing");
    for (const [i, text] of cases.entries()) {
      const { code, reported } = await lint(POD + text);
      assert.equal(code, 0, JSON.stringify(reported));
      assert.ok(idsOf(reported).includes(`info ${expected[i]}`), JSON.stringify(reported));
    }
  });

  it("LINT-10: an unknown value of a known label, and a rule that narrows nothing, stay warnings", async () => {
    const labelled = POD.replace("app: web", "app: web, strimzi.io/cluster: events");
    const typo = await lint(labelled + policy("{ matchLabels: { strimzi.io/cluster: billing } }\n  ingress: [{}]"));
    assert.deepEqual([typo.code, idsOf(typo.reported)], [1, ["warning selects-nothing"]]);
    const twice = policy(
      "{ matchLabels: { app: web } }\n  ingress: [{ ports: [{ port: 80 }] }, { ports: [{ port: 80 }] }]",
    );
    assert.ok(idsOf((await lint(POD + twice)).reported).includes("warning shadowed"));
  });

  it("LINT-01: every rule has a page with its ID, its severity and a reason, and every finding names it", async () => {
    const page = readFileSync("docs/lint.md", "utf8");
    for (const { id, severity, summary, reason } of RULES) {
      const section = page.split(`\n## ${id}\n`)[1]?.split("\n## ")[0] ?? "";
      assert.ok(section.includes(`\`${severity}\`: ${summary}`), id);
      assert.ok(section.includes(reason), id);
    }
    const { reported } = await lint(POD + policy("{ matchLabels: { app: db } }"));
    assert.deepEqual(
      reported.map(({ documentation }) => documentation),
      ["docs/lint.md#selects-nothing"],
    );
  });
});
