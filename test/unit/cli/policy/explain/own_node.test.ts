import assert from "node:assert/strict";
import { ask, networkPolicy, node, pod } from "../../../../support/cli/objects.ts";

const DENY = networkPolicy("shop/deny", "podSelector: { matchLabels: { app: db } }");
const on = (name: string | undefined): string => (name === undefined ? "" : `nodeName: ${name}`);

const explain = (text: string, ...args: readonly string[]) => ask(text, "policy", "explain", ...args);

describe("cli/policy/explain: a pod and its own node", () => {
  it("EXPLAIN-06: whether NetworkPolicies stop what a node, or a pod in its network, sends to a pod whose node is unknown is not known", async () => {
    const remark = "it is not known on which node shop/db runs; NetworkPolicies do not stop its traffic with that node";
    for (const [from, nodeName, isSaid] of [
      ["node/n1", undefined, true],
      ["shop/agent", undefined, true],
      ["node/n1", "n2", false],
      ["shop/web", undefined, false],
    ] as const) {
      const objects =
        node("n1") +
        pod("shop/db", "", { spec: on(nodeName) }) +
        pod("shop/web") +
        pod("shop/agent", "", { spec: "nodeName: n1, hostNetwork: true" }) +
        DENY;
      const { out, code } = await explain(objects, "--from", from, "--to", "shop/db", "--port", "80");
      assert.equal(code, isSaid ? 3 : 1, out);
      assert.equal(out.replaceAll(/\s+/g, " ").includes(remark), isSaid, `${from} ${nodeName}`);
    }
  });
});
