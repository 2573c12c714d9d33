import assert from "node:assert/strict";
import { DIFF_FORMATS } from "../../../../../cli/policy/diff/command.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { assertGolden, fixtureFiles } from "../../../../support/cli/golden.ts";
import { networkPolicy, node, ownedBy, pod, workload as template } from "../../../../support/cli/objects.ts";

const TENANTS = fixtureFiles("tenants");

const place = { spec: "nodeName: n1" };
const policy = (rules: string, name = "db", more = ""): string =>
  networkPolicy(`shop/${name}`, `podSelector: { matchLabels: { app: ${name} } }, ${more}ingress: [${rules}]`);
const PODS = pod("shop/web", "10.244.0.5", place) + pod("shop/db", "10.244.0.6", place);

const diff = (files: Readonly<Record<string, string>>, ...args: readonly string[]) =>
  runCli(["policy", "diff", "a.yaml", "b.yaml", ...args], memoryFiles(files));

interface PrintedChange {
  readonly change: string;
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly connections: readonly string[];
  readonly pairs: number;
  readonly of: number;
}

function changesIn(json: string): readonly PrintedChange[] {
  return (JSON.parse(json) as { readonly changes: readonly PrintedChange[] }).changes;
}

describe("cli/policy/diff", () => {
  for (const format of DIFF_FORMATS.filter((one) => one !== "html")) {
    it(`DIFF-05: tenants with ClusterNetworkPolicies, as ${format}`, async () => {
      const { code, out, err } = await runCli(
        ["policy", "diff", "tenants/before", "tenants/after", "-o", format],
        TENANTS,
      );
      assert.deepEqual([code, err], [1, ""]);
      assertGolden(`tenants/expected/diff.${format}.txt`, out);
    });
  }

  it("DIFF-05: a witness names the rule before and after with file and line, at the end where the verdict changed", async () => {
    const files = {
      "a.yaml": PODS + policy("\n{ from: [{ podSelector: {} }], ports: [{ port: 5432 }] }"),
      "b.yaml":
        PODS +
        policy(
          "\n{ ports: [{ port: 80 }] }, { from: [{ podSelector: { matchLabels: { app: web } } }], ports: [{ port: 5433 }] }",
        ),
    };
    const { code, out } = await diff(files, "-o", "json");
    assert.equal(code, 1);
    const { changes } = JSON.parse(out) as {
      changes: readonly { connections: string[]; witness: { ends: unknown } }[];
    };
    const removed = changes.find(({ connections }) => connections.includes("5432/TCP"));
    assert.deepEqual(removed?.witness.ends, [
      {
        direction: "ingress",
        before: {
          allowed: true,
          reason: "NetworkPolicy shop/db ingress[0] (a.yaml:6)",
          places: [{ name: "NetworkPolicy shop/db ingress[0]", file: "a.yaml", line: 6 }],
        },
        after: {
          allowed: false,
          reason:
            "isolated by NetworkPolicy shop/db (b.yaml:5); nearest is shop/db ingress[0] (b.yaml:6), but it is for port 80",
          places: [{ name: "NetworkPolicy shop/db", file: "b.yaml", line: 5 }],
        },
      },
    ]);
  });

  it("DIFF-09: a new pod that the database's policy admits is an added connection, and the exit code is 1", async () => {
    const database = policy("{ from: [{ podSelector: { matchLabels: { app: new } } }], ports: [{ port: 5432 }] }");
    const closed = policy("", "new", "egress: [{ to: [{ podSelector: { matchLabels: { app: db } } }] }], ");
    const files = { "a.yaml": PODS + database, "b.yaml": PODS + database + pod("shop/new", "10.244.0.9") + closed };
    assert.deepEqual(await diff(files), {
      code: 1,
      out: `opens (new workload) shop/new -> shop/db: 5432/TCP
  1 of 1 pair, such as shop/new -> shop/db 5432/TCP
    before: shop/new is not there
    after:  egress allowed: NetworkPolicy shop/new egress[0] (b.yaml:9)
    after:  ingress allowed: NetworkPolicy shop/db ingress[0] (b.yaml:5)
new: shop/new (1 pod)
`,
      err: "",
    });
    const back = await diff({ "a.yaml": files["b.yaml"], "b.yaml": files["a.yaml"] });
    assert.equal(back.code, 1);
    assert.match(back.out, /^closes \(removed workload\) shop\/new -> shop\/db: 5432\/TCP$/m);
    assert.match(back.out, /^gone: shop\/new \(1 pod\)$/m);
    const json = JSON.parse((await diff(files, "-o", "json")).out) as {
      changes: { workload?: string }[];
      pods: unknown;
    };
    assert.deepEqual(
      [json.changes.map(({ workload }) => workload), json.pods],
      [["new"], { appeared: ["shop/new"], gone: [] }],
    );
  });

  it("DIFF-09: a new pod to and from which nothing is allowed is reported, and the exit code is 0", async () => {
    const closed = policy("", "new", "policyTypes: [Ingress, Egress], ");
    const files = { "a.yaml": PODS, "b.yaml": PODS + pod("shop/new", "10.244.0.9") + closed };
    assert.deepEqual(await diff(files), {
      code: 0,
      out: "no difference in what may be sent\nnew: shop/new (1 pod)\n",
      err: "",
    });
  });

  it("DIFF-09: a note says that no workload is on both sides, or that there are no pods", async () => {
    const nothing = await diff({ "a.yaml": pod("shop/a", "10.1.1.1"), "b.yaml": pod("shop/b", "10.1.1.1") });
    assert.match(nothing.err, /^no workload is on both sides: all connections count as those of new and removed/);
    assert.equal(nothing.code, 1);
    const empty = await diff({ "a.yaml": policy(""), "b.yaml": policy("{}") });
    assert.match(empty.err, /^no pod is on either side/m);
  });

  it("DIFF-06: a node of one side only is reported and not compared", async () => {
    const { code, out } = await diff({ "a.yaml": PODS, "b.yaml": PODS + node("n2") });
    assert.deepEqual([code, out], [0, "no difference in what may be sent\nnew, and not compared: node/n2\n"]);
  });

  it("DIFF-01: pods of one workload are compared with each other, whatever their names and their number", async () => {
    const replica = (name: string, address: string, hash: string): string =>
      pod(`shop/${name}`, address, {
        app: "web",
        labels: `pod-template-hash: h${hash}`,
        metadata: ownedBy("ReplicaSet", `web-h${hash}`),
      });
    const db = pod("shop/db", "10.244.0.6");
    const [one, two] = [replica("web-1-a", "10.244.0.7", "1"), replica("web-1-b", "10.244.0.8", "1")];
    const young = replica("web-2-a", "10.244.0.9", "2") + replica("web-2-b", "10.244.0.10", "2");
    const clean = { code: 0, out: "no difference in what may be sent\n", err: "" };
    const closed = policy("{ from: [{ podSelector: { matchLabels: { app: web } } }] }");
    assert.deepEqual(await diff({ "a.yaml": db + one + closed, "b.yaml": db + young + closed }), clean);
    assert.deepEqual(await diff({ "a.yaml": db + one + two + closed, "b.yaml": db + one + closed }), clean);
    const cut = await diff({ "a.yaml": db + one + two, "b.yaml": db + young + policy("") });
    assert.equal(cut.code, 1);
    assert.match(
      cut.out,
      /^closes new pod in any other namespace, outside IPv4, shop\/deployment\/web -> shop\/db: all\n {2}5 of 5 pairs/,
    );
    const self = policy("{ from: [{ podSelector: { matchLabels: { app: x } } }] }", "web");
    const apart = await diff({ "a.yaml": one + two, "b.yaml": young + self }, "-o", "json");
    const [own] = changesIn(apart.out).filter(({ to }) => to.includes("shop/deployment/web"));
    assert.ok(own?.from.includes("shop/deployment/web") && own.pairs === own.of, apart.out);
    assert.equal(
      (await diff({ "a.yaml": one, "b.yaml": one + two + self })).out.includes("web -> shop/deployment/web"),
      false,
    );
  });

  it("MATRIX-07: the outside is split at the prefixes that either side names, in the families that pods have", async () => {
    const files = {
      "a.yaml": PODS + policy("{ from: [{ ipBlock: { cidr: 192.0.2.0/24 } }] }"),
      "b.yaml": PODS + policy("{ from: [{ ipBlock: { cidr: 192.0.2.0/24, except: [192.0.2.128/25] } }] }"),
    };
    const { out } = await diff(files, "-o", "json");
    assert.deepEqual(
      changesIn(out).map(({ change, from, to, connections }) => [change, ...from, ...to, ...connections]),
      [["removed", "outside 192.0.2.128/25", "shop/db", "all"]],
    );
  });

  it("DIFF-06: a node and a pod with the same printed name are two ends", async () => {
    const inNode = (text: string): string => text.replaceAll("namespace: shop", "namespace: node");
    const files = {
      "a.yaml": inNode(PODS) + node("web"),
      "b.yaml": inNode(PODS + policy("{ from: [{ podSelector: {} }] }")) + node("web"),
    };
    const { out } = await diff(files);
    assert.match(out, /^closes new pod in any other namespace, node\/web, outside IPv4 -> node\/db: all$/m);
    assert.match(out, / 4 of 4 pairs, /);
  });

  it("CLI-05: an invalid object on either side is an error, never a difference", async () => {
    const bad = PODS + policy("{ ports: [{ port: 70000 }] }");
    const { code, out, err } = await diff({ "a.yaml": PODS, "b.yaml": bad });
    assert.deepEqual([code, out], [3, ""]);
    assert.match(err, /^b\.yaml:\d+: NetworkPolicy shop\/db: .*70000/);
    assert.equal((await runCli(["policy", "diff", "-", "-"], memoryFiles({ "-": PODS }))).code, 3);
    assert.equal((await runCli(["policy", "diff", "a.yaml"], memoryFiles({ "a.yaml": PODS }))).code, 2);
  });

  it("DIFF-06: stand-ins of a template have the addresses and nodes of its workload's pods on the other side", async () => {
    const live = (key: string, ips: string, kind: string, owner: string, spec = ""): string =>
      pod(key, ips, {
        app: "web",
        labels: "pod-template-hash: h",
        metadata: ownedBy(kind, owner),
        spec: `nodeName: n1${spec}`,
      });
    const rules = policy("{ from: [{ ipBlock: { cidr: 10.244.0.0/16 } }] }", "web");
    const cluster =
      live("shop/web-h-1", "10.244.0.5", "ReplicaSet", "web-h") +
      live("shop/api-h-1", "10.244.0.6", "ReplicaSet", "api-h") +
      live("mon/agent-1", "192.0.2.1", "DaemonSet", "agent", ", hostNetwork: true") +
      rules;
    const agent = template("DaemonSet", "mon/agent", "web").replace(
      "spec: { containers",
      "spec: { hostNetwork: true, containers",
    );
    const files = (app: string): string =>
      template("Deployment", "shop/web") + template("Deployment", "shop/api", app) + agent + rules;
    assert.equal((await diff({ "a.yaml": cluster, "b.yaml": files("web") })).code, 0);
    assert.equal((await diff({ "a.yaml": files("web"), "b.yaml": cluster })).code, 0);
    const { code, out } = await diff({ "a.yaml": cluster, "b.yaml": files("api") });
    assert.deepEqual(
      [code, out.split("\n")[0]],
      [1, "opens outside 0.0.0.0/0 except 10.244.0.0/16 -> shop/deployment/api: all"],
    );
  });
});
