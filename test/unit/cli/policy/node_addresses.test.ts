import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { ask, manifest, networkPolicy, node, pod, service } from "../../../support/cli/objects.ts";

const NODE = manifest(
  "Node",
  "name: n1",
  "status: { addresses: [{ type: InternalIP, address: 192.168.0.1 }, { type: ExternalIP, address: 34.1.1.1 }] }",
);
const X = pod("s/x", "10.0.0.5", { spec: "nodeName: n2" });
const policy = (rules: string): string => networkPolicy("s/x", `podSelector: { matchLabels: { app: x } }, ${rules}`);
const RULES = policy(
  "policyTypes: [Ingress, Egress], egress: [{ to: [{ ipBlock: { cidr: 34.1.1.1/32 } }] }], ingress: [{ from: [{ ipBlock: { cidr: 192.168.0.0/24 } }] }]",
);
const hostPort = (hostIp: string): string =>
  pod("s/x", "10.0.0.5", { ports: `{ containerPort: 80, hostPort: 443, hostIP: ${hostIp} }`, spec: "nodeName: n1" });
const CLOSED = policy("ingress: []");
const onHost = (name: string, address: string): string =>
  pod(`mon/${name}`, address, { spec: `nodeName: n-${name}, hostNetwork: true` });

describe("cli/policy: addresses of nodes", () => {
  for (const [id, what, input, from, to, expected] of [
    ["EXPLAIN-03", "a rule for a node's external address allows it", NODE + X + RULES, "s/x", "34.1.1.1", 0],
    ["EXPLAIN-03", "a rule for a node's external address denies others", NODE + X + RULES, "s/x", "192.168.0.1", 1],
    ["EXPLAIN-03", "a rule for a node's internal address allows it", NODE + X + RULES, "192.168.0.1", "s/x", 0],
    ["EXPLAIN-03", "a rule for a node's internal address denies others", NODE + X + RULES, "34.1.1.1", "s/x", 1],
    [
      "EXPLAIN-16",
      "a host port with an address of its own leads to its pod there, whose policies decide",
      NODE + hostPort("34.1.1.1") + CLOSED,
      "8.8.8.8",
      "34.1.1.1",
      1,
    ],
    [
      "EXPLAIN-16",
      "a host port with an address of its own leaves the other addresses to the node",
      NODE + hostPort("34.1.1.1") + CLOSED,
      "8.8.8.8",
      "192.168.0.1",
      0,
    ],
    [
      "EXPLAIN-06",
      "a node without an object has the addresses of its host-network pods",
      X + onHost("a", "34.1.1.1") + onHost("b", "192.168.0.1") + RULES,
      "s/x",
      "34.1.1.1",
      0,
    ],
  ] as const) {
    it(`${id}: ${what}`, async () => {
      const { code, out } = await ask(input, "policy", "explain", "--from", from, "--to", to, "--port", "443");
      assert.equal(code, expected, out);
    });
  }

  it("DIFF-01: a rule that goes and was for a further address of a node is a difference", async () => {
    const gone = policy("policyTypes: [Ingress, Egress], ingress: [{ from: [{ ipBlock: { cidr: 192.168.0.0/24 } }] }]");
    const files = memoryFiles({ "a.yaml": NODE + X + RULES, "b.yaml": NODE + X + gone });
    const { code, out } = await runCli(["policy", "diff", "a.yaml", "b.yaml"], files);
    assert.equal(code, 1, out);
    assert.match(out, /closes s\/x -> node\/n1 \(34\.1\.1\.1\): all/);
  });

  it("LINT-10: the only policy that allows a further address of a node is not redundant", async () => {
    const closed = networkPolicy("s/closed", "podSelector: {}, policyTypes: [Egress]");
    const only = policy("policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 34.1.1.1/32 } }] }]");
    const { out } = await ask(NODE + X + closed + only, "policy", "lint", "--only", "redundant");
    assert.doesNotMatch(out, /s\/x: redundant/);
  });

  const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => i + 10);
  const balanced = (more: string): string =>
    service(
      "s/x",
      "x",
      "{ port: 443, targetPort: 80, nodePort: 30080 }",
      `type: LoadBalancer, externalIPs: [7.7.7.7]${more}`,
    );

  it("EXPLAIN-03: of 18 nodes with endpoints the last is tried, too, whose pod a policy isolates", async () => {
    const nodes = numbers(18).map((i) => {
      const closed = i === 27 ? "kind: shut" : "";
      return (
        node(`n${i}`, `192.168.0.${i}`) +
        pod(`s/x${i}`, `10.0.0.${i}`, { app: "x", labels: closed, spec: `nodeName: n${i}` })
      );
    });
    const input = nodes.join("") + balanced(", externalTrafficPolicy: Local");
    const rule = networkPolicy("s/x", "podSelector: { matchLabels: { kind: shut } }, ingress: []");
    const args = ["policy", "explain", "--from", "8.8.8.8", "--to", "service/s/x", "--port", "443"];
    const { code, out } = await ask(input + rule, ...args);
    assert.equal(code, 1, out);
    assert.match(out, /denied in part/);
  });

  it("EXPLAIN-03: a node without endpoints is tried where policies tell its address, the new source, from others", async () => {
    const nodes = ["192.168.0.1", "192.168.0.2", "192.168.1.3"].map((ip, i) => node(`n${i}`, ip)).join("");
    const input = nodes + pod("s/x", "10.0.0.5", { spec: "nodeName: n0" }) + balanced("");
    const rule = policy(
      "ingress: [{ from: [{ ipBlock: { cidr: 192.168.0.0/24 } }, { ipBlock: { cidr: 8.0.0.0/8 } }] }]",
    );
    const args = ["policy", "explain", "--from", "8.8.8.8", "--to", "service/s/x", "--port", "443"];
    const { code, out } = await ask(input + rule, ...args);
    assert.equal(code, 1, out);
    assert.match(out, /denied in part/);
  });
});
