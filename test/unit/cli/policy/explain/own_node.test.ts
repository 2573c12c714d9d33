import assert from "node:assert/strict";
import { ask, networkPolicy, node, pod } from "../../../../support/cli/objects.ts";

const DENY = networkPolicy("shop/deny", "podSelector: { matchLabels: { app: db } }");
const on = (name: string | undefined): string => (name === undefined ? "" : `nodeName: ${name}`);

const explain = (text: string, ...args: readonly string[]) => ask(text, "policy", "explain", ...args);

describe("cli/policy/explain: a pod and its own node", () => {
  it("EXPLAIN-06: a pod whose node is unknown gets a remark about its own node", async () => {
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
      assert.equal(code, 1, out);
      assert.equal(out.replaceAll(/\s+/g, " ").includes(remark), isSaid, `${from} ${nodeName}`);
    }
  });

  it("EXPLAIN-06: a host port of a node is named, since the pod's policies decide about it", async () => {
    const ports =
      "{ containerPort: 80, hostPort: 8080 }, { containerPort: 81, hostPort: 8081, hostIP: 127.0.0.1 }, " +
      '{ containerPort: 82, hostPort: 8082, hostIP: "0:0::1" }, { containerPort: 83, hostPort: 8083, hostIP: 0.0.0.0 }, ' +
      "{ containerPort: 53, protocol: UDP }";
    const asked = async (port: string, spec = "nodeName: n1"): Promise<string> => {
      const objects = node("n1") + pod("shop/db", "", { ports, spec }) + pod("shop/web", "", { spec: on("n2") }) + DENY;
      const question = ["--from", "shop/web", "--to", "node/n1", ...(port === "" ? [] : ["--port", port])];
      return (await explain(objects, ...question)).out;
    };
    const note =
      "Note: port 8080/TCP of node/n1 is a host port of shop/db: it leads to port 80 of that pod, whose policies decide.";
    assert.ok((await asked("8080")).includes(note));
    assert.ok((await asked("")).includes(note));
    assert.match(await asked("8080", ""), /port 8080\/TCP of its node is a host port of shop\/db/);
    assert.match(await asked("8081"), /port 8081\/TCP of 127\.0\.0\.1 on node\/n1 is a host port of shop\/db/);
    assert.match(await asked("8082"), /port 8082\/TCP of ::1 on node\/n1 is a host port of shop\/db/);
    assert.match(await asked("8083"), /port 8083\/TCP of node\/n1 is a host port of shop\/db/);
    for (const port of ["80", "8080/UDP", "53/UDP"]) assert.doesNotMatch(await asked(port), /host port/, port);
    assert.doesNotMatch(await asked("8080", on("n2")), /host port/);
    assert.doesNotMatch(await asked("8080", "nodeName: n1, hostNetwork: true"), /host port/);
  });
});
