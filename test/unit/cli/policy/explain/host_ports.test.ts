import assert from "node:assert/strict";
import { type Outcome } from "../../../../support/cli/cli.ts";
import { ask, networkPolicy, node, pod, service } from "../../../../support/cli/objects.ts";

const NODE = node("n1", "192.168.0.1");
const x = (ports: string, spec = "nodeName: n1"): string => pod("s/x", "10.0.0.5", { ports, spec });
const POLICY = networkPolicy(
  "s/x",
  "podSelector: { matchLabels: { app: x } }, ingress: [{ from: [{ ipBlock: { cidr: 203.0.113.0/24 } }], ports: [{ port: 80 }, { port: 53, protocol: UDP }] }]",
);
const USUAL = "{ containerPort: 80, hostPort: 8081 }";

function explain(input: string, from: string, port: string, to = "192.168.0.1"): Promise<Outcome> {
  return ask(NODE + input + POLICY, "policy", "explain", "--from", from, "--to", to, "--port", port);
}

describe("cli/policy/explain: host ports", () => {
  for (const [what, input, from, port, expected] of [
    ["an address that the pod's policy does not admit", x(USUAL), "198.51.100.9", "8081", 1],
    ["an address that it admits", x(USUAL), "203.0.113.9", "8081", 0],
    ["another protocol of the host port", x(USUAL), "198.51.100.9", "8081/UDP", 0],
    ["a port of UDP", x("{ containerPort: 53, hostPort: 5353, protocol: UDP }"), "198.51.100.9", "5353/UDP", 1],
    [
      "the address of the node that has the port",
      x("{ containerPort: 80, hostPort: 8081, hostIP: 192.168.0.1 }"),
      "198.51.100.9",
      "8081",
      1,
    ],
    [
      "an address of the node without the port",
      x("{ containerPort: 80, hostPort: 8081, hostIP: 127.0.0.1 }"),
      "198.51.100.9",
      "8081",
      0,
    ],
    ["a pod whose node is not known", x(USUAL, ""), "198.51.100.9", "8081", 1],
  ] as const) {
    it(`EXPLAIN-16: ${what}: the policies of the host port's pod decide`, async () => {
      const { code, out } = await explain(input, from, port);
      assert.equal(code, expected, out);
    });
  }

  for (const [what, spec, peer, expected] of [
    ["to the node, from a pod on another one", "nodeName: n2", "ipBlock: { cidr: 192.168.0.1/32 }", "allowed"],
    ["to pods, from a pod on another node", "nodeName: n2", "podSelector: {}", "denied"],
    ["to the node, from a pod on it", "nodeName: n1", "ipBlock: { cidr: 192.168.0.1/32 }", "denied"],
    ["to pods, from a pod on the same node", "nodeName: n1", "podSelector: {}", "allowed"],
    ["to the node, from a pod on some node", "", "ipBlock: { cidr: 192.168.0.1/32 }", "not known"],
    ["to pods, from a pod on some node", "", "podSelector: {}", "not known"],
  ] as const) {
    it(`EXPLAIN-16 EXPLAIN-08: with a rule of egress ${what}, the host port and the node port of a node are ${expected}`, async () => {
      const rule = `egress: [{ to: [{ ${peer} }] }]`;
      const local = service(
        "s/b",
        "b",
        "{ port: 80, nodePort: 30080 }",
        "type: NodePort, externalTrafficPolicy: Local",
      );
      const objects =
        NODE +
        node("n2", "192.168.0.2") +
        pod("s/a", "10.0.0.4", { spec }) +
        pod("s/b", "10.0.0.5", { ports: USUAL, spec: "nodeName: n1" }) +
        local +
        networkPolicy("s/a", `podSelector: { matchLabels: { app: a } }, policyTypes: [Egress], ${rule}`);
      for (const port of ["8081", "30080"]) {
        const { out } = await ask(objects, "policy", "explain", "--from", "s/a", "--to", "node/n1", "--port", port);
        assert.equal(out.split("\n")[0]?.split(": ").at(-1), expected, port);
      }
    });
  }
});
