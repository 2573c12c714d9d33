import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";

const NODE = `---
apiVersion: v1
kind: Node
metadata: { name: n1 }
status: { addresses: [{ type: InternalIP, address: 192.168.0.1 }] }
`;
const pod = (ports: string, node = "nodeName: n1, "): string => `---
apiVersion: v1
kind: Pod
metadata: { name: x, namespace: s, labels: { app: x } }
spec: { ${node}containers: [{ name: c, image: i, ports: [${ports}] }] }
status: { phase: Running, podIP: 10.0.0.5, podIPs: [{ ip: 10.0.0.5 }] }
`;
const POLICY = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: x, namespace: s }
spec: { podSelector: { matchLabels: { app: x } }, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.0/24 } }], ports: [{ port: 80 }, { port: 53, protocol: UDP }] }] }
`;
const USUAL = "{ containerPort: 80, hostPort: 8081 }";

function explain(input: string, from: string, port: string, to = "192.168.0.1"): Promise<Outcome> {
  const args = ["policy", "explain", "-f", "a.yaml", "--from", from, "--to", to, "--port", port];
  return runCli(args, memoryFiles({ "a.yaml": NODE + input + POLICY }));
}

describe("cli/policy/explain: host ports", () => {
  for (const [what, input, from, port, expected] of [
    ["an address that the pod's policy does not admit", pod(USUAL), "198.51.100.9", "8081", 1],
    ["an address that it admits", pod(USUAL), "203.0.113.9", "8081", 0],
    ["another protocol of the host port", pod(USUAL), "198.51.100.9", "8081/UDP", 0],
    ["a port of UDP", pod("{ containerPort: 53, hostPort: 5353, protocol: UDP }"), "198.51.100.9", "5353/UDP", 1],
    [
      "the address of the node that has the port",
      pod("{ containerPort: 80, hostPort: 8081, hostIP: 192.168.0.1 }"),
      "198.51.100.9",
      "8081",
      1,
    ],
    [
      "an address of the node without the port",
      pod("{ containerPort: 80, hostPort: 8081, hostIP: 127.0.0.1 }"),
      "198.51.100.9",
      "8081",
      0,
    ],
    ["a pod whose node is not known", pod(USUAL, ""), "198.51.100.9", "8081", 1],
  ] as const) {
    it(`EXPLAIN-16: ${what}: the policies of the host port's pod decide`, async () => {
      const { code, out } = await explain(input, from, port);
      assert.equal(code, expected, out);
    });
  }

  it("EXPLAIN-16: the node by its name has the same answer, and policy test takes it, too", async () => {
    assert.equal((await explain(pod(USUAL), "198.51.100.9", "8081", "node/n1")).code, 1);
    const tests = "tests: [{ from: 198.51.100.9, to: node/n1, port: 8081, expect: denied, reason: closed }]\n";
    const files = memoryFiles({
      "a.yaml": NODE + pod(USUAL) + POLICY,
      "t.yaml": `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\n${tests}`,
    });
    assert.equal((await runCli(["policy", "test", "t.yaml", "-f", "a.yaml"], files)).code, 0);
  });
});
