import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";

const pod = (name: string): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: default, labels: { app: ${name} } }
spec: { nodeName: n1 }
status: { phase: Running, podIPs: [{ ip: 10.1.0.${name.length} }] }
`;

const SHADOW = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: try
  annotations: { drawbridge.dev/shadow: "true" }
spec:
  podSelector: { matchLabels: { app: db } }
  ingress:
    - from: [{ podSelector: { matchLabels: { app: web } } }]
      ports: [{ port: 5432 }]
`;

const DENY = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: deny }
spec: { podSelector: {}, policyTypes: [Ingress] }
`;

async function explain(texts: readonly string[], args: string) {
  const files = memoryFiles({ "a.yaml": texts.join("---\n") });
  return runCli(["policy", "explain", "-f", "a.yaml", ...args.split(" ")], files);
}

describe("policy explain: policies in shadow", () => {
  const objects = [SHADOW, pod("db"), pod("web"), pod("other")];

  it("EXPLAIN-12: traffic that a policy in shadow would deny passes, with the policy and the nearest rule", async () => {
    const { code, out } = await explain(objects, "--from default/other --to default/db --port 5432");
    assert.equal(code, 0);
    assert.match(out, /ingress allowed as no policy has a say\n/);
    assert.match(out, /shadow: would be denied by default\/try \(a\.yaml:1\)/);
    assert.match(
      out,
      /nearest: NetworkPolicy default\/try ingress\[0\]\.from\[0\], ports\[0\] \(a\.yaml:9\), but the pod/,
    );
  });

  it("EXPLAIN-12: a policy in shadow is mentioned only if it would change the verdict", async () => {
    const same = await explain(objects, "--from default/web --to default/db --port 5432");
    assert.doesNotMatch(same.out, /shadow/);
    const opened = await explain([...objects, DENY], "--from default/web --to default/db --port 5432");
    assert.equal(opened.code, 1);
    assert.match(
      opened.out,
      /shadow: would be allowed by NetworkPolicy default\/try ingress\[0\]\.from\[0\], ports\[0\]/,
    );
  });

  it("EXPLAIN-12: without a port, the ports that would be denied are a case of their own", async () => {
    const { out } = await explain(objects, "--from default/web --to default/db");
    assert.match(out, /1-5431\/TCP, 5433-65535\/TCP/);
    assert.match(out, /shadow: would be denied by default\/try/);
  });

  it("EXPLAIN-12: JSON has the verdict of policies in shadow", async () => {
    const { out } = await explain(objects, "--from default/other --to default/db --port 5432 -o json");
    const explanation = JSON.parse(out) as { cases: { ingress: { shadow: unknown }; egress: { shadow: unknown } }[] };
    assert.equal(explanation.cases[0]?.egress.shadow, null);
    assert.deepEqual(explanation.cases[0].ingress.shadow, {
      allowed: false,
      wouldDrop: true,
      policies: [{ policy: "NetworkPolicy default/try", file: "a.yaml", line: 1 }],
      rule: null,
      nearest: {
        policy: "NetworkPolicy default/try",
        path: "ingress[0].from[0], ports[0]",
        file: "a.yaml",
        line: 9,
        failed: [{ type: "pod labels", text: "the pod has not app=web" }],
      },
    });
  });
});
