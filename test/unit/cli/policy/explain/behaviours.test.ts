import assert from "node:assert/strict";
import type { Outcome } from "../../../../support/cli/cli.ts";
import { ask, namespace, networkPolicy, pod as podWith } from "../../../../support/cli/objects.ts";

const pod = (name: string, labels = "", more = ""): string =>
  podWith(`default/${name}`, `10.1.0.${name.length}`, { labels, spec: `nodeName: n1${more}` });

/** The worked example in the documentation of NetworkPolicy. */
const WORKED_EXAMPLE = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: test-network-policy
  namespace: default
spec:
  podSelector:
    matchLabels:
      role: db
  policyTypes:
  - Ingress
  - Egress
  ingress:
  - from:
    - ipBlock:
        cidr: 172.17.0.0/16
        except:
        - 172.17.1.0/24
    - namespaceSelector:
        matchLabels:
          project: myproject
    - podSelector:
        matchLabels:
          role: frontend
    ports:
    - protocol: TCP
      port: 6379
  egress:
  - to:
    - ipBlock:
        cidr: 10.0.0.0/24
    ports:
    - protocol: TCP
      port: 5978
---
`;

const RANGE_EXAMPLE = networkPolicy(
  "default/multi-port-egress",
  "podSelector: { matchLabels: { role: db } }, policyTypes: [Egress], " +
    "egress: [{ to: [{ ipBlock: { cidr: 10.0.0.0/24 } }], ports: [{ protocol: TCP, port: 32000, endPort: 32768 }] }]",
);

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
---
`;

const DENY = networkPolicy("default/deny", "podSelector: {}, policyTypes: [Ingress]");

function explain(texts: readonly string[], args: string): Promise<Outcome> {
  return ask(texts.join(""), "policy", "explain", ...args.split(" "));
}

describe("policy explain: behaviours", () => {
  const pods = [pod("db", "role: db"), pod("frontend", "role: frontend"), pod("other", "role: other")];
  const example = [WORKED_EXAMPLE, ...pods, namespace("default", "")];

  it("POL-50: traffic that no NetworkPolicy can forbid is allowed always, with the reason", async () => {
    const agent = pod("agent", "role: agent", ", hostNetwork: true");
    const deny = networkPolicy("default/deny", "podSelector: {}, policyTypes: [Ingress, Egress]");
    const texts = [deny, ...pods, agent];
    const always: readonly (readonly [string, RegExp])[] = [
      ["--from default/db --to default/db --port 80", /ingress allowed always: a pod is never kept from itself/],
      [
        "--from node/n1 --to default/db --port 80",
        /ingress allowed always: a pod and the node it runs on are never kept apart/,
      ],
      [
        "--from default/agent --to default/db --port 80",
        /ingress allowed always: a pod and the node it runs on are never kept apart/,
      ],
      [
        "--from default/db --to node/n1 --port 10250",
        /egress {2}allowed always: a pod and the node it runs on are never kept apart/,
      ],
      [
        "--from 192.0.2.1 --to default/agent --port 80",
        /ingress allowed always: policies are for pods with addresses of their own/,
      ],
    ];
    for (const [args, words] of always) {
      const outcome = await explain(texts, args);
      assert.equal(outcome.code, 0, args);
      assert.match(outcome.out, words);
      assert.doesNotMatch(outcome.out, /isolated by/);
    }
  });

  it("POL-40 POL-51: each case of the worked example, and its neighbours, is answered with the rule or its mismatch", async () => {
    const rule =
      /ingress allowed by NetworkPolicy default\/test-network-policy ingress\[0\]\.from\[\d\], ports\[0\] \(a\.yaml:(15|19|22)\)/;
    const cases: readonly (readonly [string, number, RegExp])[] = [
      ["--from default/frontend --to default/db --port 6379", 0, rule],
      ["--from 172.17.0.255 --to default/db --port 6379/TCP", 0, rule],
      ["--from 172.17.2.0 --to default/db --port 6379/TCP", 0, rule],
      [
        "--from 172.17.1.0 --to default/db --port 6379",
        1,
        /\(a\.yaml:15\), but the address is within except 172\.17\.1\.0\/24/,
      ],
      ["--from 172.17.1.255 --to default/db --port 6379", 1, /within except 172\.17\.1\.0\/24/],
      [
        "--from default/other --to default/db --port 6379",
        1,
        /nearest: NetworkPolicy default\/test-network-policy ingress\[0\]/,
      ],
      ["--from default/frontend --to default/db --port 6378", 1, /\(a\.yaml:26\), but it is for port 6379/],
      ["--from default/frontend --to default/db --port 6380", 1, /but it is for port 6379/],
      ["--from default/frontend --to default/db --port 6379/UDP", 1, /but it is for TCP/],
      ["--from default/db --to 10.0.0.255 --port 5978", 0, /egress\[0\]\.to\[0\], ports\[0\] \(a\.yaml:30\)/],
      [
        "--from default/db --to 10.0.1.0 --port 5978",
        1,
        /\(a\.yaml:30\), but the address is not within 10\.0\.0\.0\/24/,
      ],
      [
        "--from default/db --to 10.96.0.10 --port 53/UDP",
        1,
        /but the address is not within 10\.0\.0\.0\/24; it is for TCP; it is for port 5978/,
      ],
    ];
    for (const [args, code, words] of cases) {
      const outcome = await explain(example, args);
      assert.equal(outcome.code, code, args);
      assert.match(outcome.out, words);
    }
  });

  it("POL-41: the example of a port range allows 32000 to 32768 and nothing beside it", async () => {
    const texts = [RANGE_EXAMPLE, ...pods];
    for (const [port, code] of [
      [31_999, 1],
      [32_000, 0],
      [32_768, 0],
      [32_769, 1],
    ] as const) {
      const outcome = await explain(texts, `--from default/db --to 10.0.0.1 --port ${port}`);
      assert.equal(outcome.code, code, String(port));
      if (code === 1) assert.match(outcome.out, /but it is for ports 32000 to 32768/);
    }
    const all = await explain(texts, "--from default/db --to 10.0.0.1");
    assert.match(all.out, /^default\/db to 10\.0\.0\.1: 32000-32768\/TCP\n/);
  });

  it("POL-51: the answer has what isolates each end, the rule that allows with its line, and the tiers on the way", async () => {
    const pass = `apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: { name: first }
spec:
  tier: Admin
  priority: 5
  subject: { namespaces: {} }
  ingress:
    - name: "to the \\u202Enamespaces"
      action: Pass
      from: [{ namespaces: {} }]
`;
    const { code, out } = await explain([...example, pass], "--from default/frontend --to default/db --port 6379");
    assert.equal(code, 0);
    assert.equal(
      out,
      `default/frontend to default/db, port 6379/TCP, IPv4: allowed
  egress  allowed as no policy has a say
  ingress allowed by NetworkPolicy default/test-network-policy ingress[0].from[2], ports[0] (a.yaml:22)
          passed on by Pass of ClusterNetworkPolicy first ingress[0].from[0] "to the \\u{202e}namespaces", Admin tier, priority 5 (a.yaml:54)
          isolated by default/test-network-policy (a.yaml:1)
`,
    );
  });
});

describe("policy explain: policies in shadow", () => {
  const objects = [SHADOW, ...["db", "web", "other"].map((name) => pod(name))];

  it("MATRIX-06: traffic that a policy in shadow would deny passes, with the policy and the nearest rule", async () => {
    const { code, out } = await explain(objects, "--from default/other --to default/db --port 5432");
    assert.equal(code, 0);
    assert.match(out, /ingress allowed as no policy has a say\n/);
    assert.match(out, /shadow: would be denied by default\/try \(a\.yaml:1\)/);
    assert.match(
      out,
      /nearest: NetworkPolicy default\/try ingress\[0\]\.from\[0\], ports\[0\] \(a\.yaml:9\), but the pod/,
    );
  });

  it("MATRIX-06: a policy in shadow is mentioned only if it would change the verdict", async () => {
    const same = await explain(objects, "--from default/web --to default/db --port 5432");
    assert.doesNotMatch(same.out, /shadow/);
    const opened = await explain([...objects, DENY], "--from default/web --to default/db --port 5432");
    assert.equal(opened.code, 1);
    assert.match(
      opened.out,
      /shadow: would be allowed by NetworkPolicy default\/try ingress\[0\]\.from\[0\], ports\[0\]/,
    );
  });

  it("MATRIX-06: without a port, the ports that would be denied are a case of their own", async () => {
    const { out } = await explain(objects, "--from default/web --to default/db");
    assert.match(out, /1-5431\/TCP, 5433-65535\/TCP/);
    assert.match(out, /shadow: would be denied by default\/try/);
  });
});
