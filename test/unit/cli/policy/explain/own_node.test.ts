import assert from "node:assert/strict";
import { ask, clusterPolicy, networkPolicy, node, pod, service } from "../../../../support/cli/objects.ts";

const DENY = networkPolicy("shop/deny", "podSelector: { matchLabels: { app: db } }");
const on = (name: string | undefined): string => (name === undefined ? "" : `nodeName: ${name}`);

const explain = (text: string, ...args: readonly string[]) => ask(text, "policy", "explain", ...args);

const CLUSTER_DENY = clusterPolicy("all", "egress: [{ action: Deny, to: [{ nodes: {} }] }]");

describe("cli/policy/explain: a pod and its own node", () => {
  it("EXPLAIN-06: what NetworkPolicies deny between a node, or a pod in its network, and a pod whose node is unknown is not known", async () => {
    const remark =
      /it is not known on which node (shop\/db|each endpoint of service\/shop\/db) runs; NetworkPolicies do not stop its traffic with that node/;
    for (const [from, to, nodeName, isSaid, policies = DENY] of [
      ["node/n1", "shop/db", undefined, true],
      ["node/n1", "service/shop/db", undefined, true],
      ["shop/agent", "shop/db", undefined, true],
      ["node/n1", "shop/db", "n2", false],
      ["node/n1", "service/shop/db", "n2", false],
      ["shop/web", "shop/db", undefined, false],
      ["shop/db", "node/n1", undefined, true, DENY.replace("podSelector", "policyTypes: [Egress], podSelector")],
      // A ClusterNetworkPolicy also stops what a pod sends to its node.
      ["shop/db", "node/n1", undefined, false, CLUSTER_DENY],
    ] as const) {
      const objects =
        node("n1") +
        pod("shop/db", "", { spec: on(nodeName) }) +
        pod("shop/web") +
        pod("shop/agent", "", { spec: "nodeName: n1, hostNetwork: true" }) +
        service("shop/db", "db", "{ port: 80 }") +
        policies;
      const { out, code } = await explain(objects, "--from", from, "--to", to, "--port", "80");
      assert.equal(code, isSaid ? 3 : 1, out);
      const isNamed = remark.test(out.replaceAll(/\s+/g, " "));
      assert.equal(isNamed, isSaid, `${from} ${to} ${nodeName} ${policies}`);
    }
    const pods = pod("shop/db") + DENY;
    const agent = pod("shop/agent", "", { spec: "hostNetwork: true" });
    for (const command of [["matrix", "-o", "json"], ["coverage"], ["describe", "shop/db"]]) {
      for (const [text, isSaid] of [
        [pods + agent, true],
        [pods, false],
      ] as const) {
        const { err } = await ask(text, "policy", ...command);
        assert.equal(err.includes("not known: on which node some pods run;"), isSaid, `${command.join(" ")} ${err}`);
      }
    }
  });
});
