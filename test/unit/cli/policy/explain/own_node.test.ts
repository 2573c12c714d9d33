import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli.ts";

const DENY = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "deny", namespace: "shop" },
  spec: { podSelector: { matchLabels: { app: "db" } } },
};

function pod(name: string, spec: object): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "shop", labels: { app: name } }, spec };
}

describe("cli/policy/explain: a pod and its own node", () => {
  it("EXPLAIN-06: where the input does not tell a pod's node, it says what holds for that", async () => {
    const remark = "the input does not tell on which node shop/db runs: NetworkPolicies never keep it from that one";
    for (const [from, nodeName, isSaid] of [
      ["node/n1", undefined, true],
      ["shop/agent", undefined, true],
      ["node/n1", "n2", false],
      ["shop/web", undefined, false],
    ] as const) {
      const objects = [
        { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
        pod("db", { nodeName }),
        pod("web", {}),
        pod("agent", { nodeName: "n1", hostNetwork: true }),
        DENY,
      ];
      const files = memoryFiles({ "a.json": objects.map((one) => JSON.stringify(one)).join("\n") });
      const question = ["--from", from, "--to", "shop/db", "--port", "80"];
      const { out, code } = await runCli(["policy", "explain", "-f", "a.json", ...question], files);
      assert.equal(code, 1, out);
      assert.equal(out.replaceAll(/\s+/g, " ").includes(remark), isSaid, `${from} ${nodeName}`);
    }
  });
});
