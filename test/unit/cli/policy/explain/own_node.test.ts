import assert from "node:assert/strict";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";

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
  it("EXPLAIN-06: a pod whose node is unknown gets a remark about its own node", async () => {
    const remark = "it is not known on which node shop/db runs; NetworkPolicies do not stop its traffic with that node";
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

  it("EXPLAIN-06: a host port of a node is named, since the pod's policies decide about it", async () => {
    const ports = [
      { containerPort: 80, hostPort: 8080 },
      { containerPort: 81, hostPort: 8081, hostIP: "127.0.0.1" },
      { containerPort: 82, hostPort: 8082, hostIP: "0:0::1" },
      { containerPort: 83, hostPort: 8083, hostIP: "0.0.0.0" },
      { containerPort: 53, protocol: "UDP" },
    ];
    const ask = async (port: string, spec: object = { nodeName: "n1" }): Promise<string> => {
      const node = { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } };
      const objects = [node, pod("db", { containers: [{ ports }], ...spec }), pod("web", { nodeName: "n2" }), DENY];
      const files = memoryFiles({ "a.json": objects.map((one) => JSON.stringify(one)).join("\n") });
      const question = ["--from", "shop/web", "--to", "node/n1", ...(port === "" ? [] : ["--port", port])];
      return (await runCli(["policy", "explain", "-f", "a.json", ...question], files)).out;
    };
    const note =
      "Note: port 8080/TCP of node/n1 is a host port of shop/db: it leads to port 80 of that pod, whose policies decide.";
    assert.ok((await ask("8080")).includes(note));
    assert.ok((await ask("")).includes(note));
    assert.match(await ask("8080", {}), /port 8080\/TCP of its node is a host port of shop\/db/);
    assert.match(await ask("8081"), /port 8081\/TCP of 127\.0\.0\.1 on node\/n1 is a host port of shop\/db/);
    assert.match(await ask("8082"), /port 8082\/TCP of ::1 on node\/n1 is a host port of shop\/db/);
    assert.match(await ask("8083"), /port 8083\/TCP of node\/n1 is a host port of shop\/db/);
    for (const port of ["80", "8080/UDP", "53/UDP"]) assert.doesNotMatch(await ask(port), /host port/, port);
    assert.doesNotMatch(await ask("8080", { nodeName: "n2" }), /host port/);
    assert.doesNotMatch(await ask("8080", { nodeName: "n1", hostNetwork: true }), /host port/);
  });
});
