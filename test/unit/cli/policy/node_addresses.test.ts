import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { ask, manifest, networkPolicy, pod } from "../../../support/cli/objects.ts";

const NODE = manifest(
  "Node",
  "name: n1",
  "status: { addresses: [{ type: InternalIP, address: 192.168.0.1 }, { type: ExternalIP, address: 34.1.1.1 }] }",
);
const X = pod("s/x", "10.0.0.5");
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

  it("DIFF-01: a rule for a node's further address that goes is a difference", async () => {
    const gone = policy("policyTypes: [Ingress, Egress], ingress: [{ from: [{ ipBlock: { cidr: 192.168.0.0/24 } }] }]");
    const files = memoryFiles({ "a.yaml": NODE + X + RULES, "b.yaml": NODE + X + gone });
    const { code, out } = await runCli(["policy", "diff", "a.yaml", "b.yaml"], files);
    assert.equal(code, 1, out);
    assert.match(out, /closes s\/x -> node\/n1 \(34\.1\.1\.1\): all/);
  });

  it("LINT-10: a policy that alone allows a node's further address is not redundant", async () => {
    const closed = networkPolicy("s/closed", "podSelector: {}, policyTypes: [Egress]");
    const only = policy("policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 34.1.1.1/32 } }] }]");
    const { out } = await ask(NODE + X + closed + only, "policy", "lint", "--only", "redundant");
    assert.doesNotMatch(out, /s\/x: redundant/);
  });
});
