import assert from "node:assert/strict";
import { memoryFiles, runCli, matrixLines } from "../../../../support/cli/cli.ts";
import { fixtureFiles } from "../../../../support/cli/golden.ts";
import { ask as run, manifest, named, namespace, pod, service } from "../../../../support/cli/objects.ts";

const SHOP = fixtureFiles("shop");

const policy = (spec: string): string => manifest("NetworkPolicy", named("shop/p"), `spec: ${spec}`);

const DB = pod("shop/db", "10.244.0.2");
const ADMITS = `{ podSelector: { matchLabels: { app: db } }, ingress: [{ ports: [{ port: 5432 }], from: [
  { podSelector: { matchLabels: { app: web } } },
  { namespaceSelector: { matchLabels: { team: ops } }, podSelector: { matchExpressions: [{ key: backup, operator: Exists }] } }] }] }`;

const ask = (text: string, ...args: readonly string[]) => run(text, "policy", "matrix", ...args);

describe("policy matrix: questions", () => {
  it("MATRIX-08: --to lists who may reach pods and who may not, with the outside and future pods", async () => {
    const { code, out, err } = await runCli(["policy", "matrix", "-f", "shop", "--to", "shop/redis"], SHOP);
    assert.deepEqual([code, err], [0, ""]);
    assert.equal(
      out,
      `TO                       CONNECTIONS   FROM
shop/statefulset/redis   all (some)    monitoring/daemonset/node-exporter
shop/statefulset/redis   9090/TCP      monitoring/statefulset/prometheus
shop/statefulset/redis   6379/TCP      shop/deployment/cart
shop/statefulset/redis   -             kube-system/deployment/coredns, payments/*, shop/deployment/catalog, shop/deployment/frontend, outside, any new pod
`,
    );
  });

  it("MATRIX-08: --from lists what pods may reach, and --allowed-only omits the rest", async () => {
    const asked = ["policy", "matrix", "-f", "shop", "--from", "shop/frontend", "--allowed-only"];
    const { out } = await runCli(asked, SHOP);
    assert.equal(
      out,
      `FROM                       CONNECTIONS      TO
shop/deployment/frontend   53/TCP, 53/UDP   kube-system/deployment/coredns
shop/deployment/frontend   all (some)       monitoring/daemonset/node-exporter
shop/deployment/frontend   8080/TCP         shop/deployment/cart, shop/deployment/catalog
shop/deployment/frontend   443/TCP          new pod in a namespace with team=billing with app=api
`,
    );
    const all = await runCli(["policy", "matrix", "-f", "shop", "-o", "json"], SHOP);
    const some = await runCli(["policy", "matrix", "-f", "shop", "-o", "json", "--allowed-only"], SHOP);
    assert.ok(some.out.length > 0 && some.out.length < all.out.length);
    assert.doesNotMatch(some.out, /"connections":\[\]/);
    assert.match(all.out, /"connections":\[\]/);
  });

  it("MATRIX-08: pods, workloads and namespaces are found by their names, and a wrong name gets the nearest ones", async () => {
    const names = async (to: string): Promise<readonly string[]> => {
      const { out } = await runCli(["policy", "matrix", "-f", "shop", "--to", to, "-o", "json"], SHOP);
      return [...new Set((JSON.parse(out) as { to: string }[]).map((one) => one.to))];
    };
    assert.deepEqual(await names("shop/statefulset/redis"), ["shop/statefulset/redis"]);
    assert.deepEqual(await names("payments"), ["payments/deployment/api", "payments/statefulset/ledger"]);
    assert.deepEqual(await names("payments/*"), await names("payments"));
    const wrong = await runCli(["policy", "matrix", "-f", "shop", "--to", "shop/rediss"], SHOP);
    assert.deepEqual([wrong.code, wrong.out], [3, ""]);
    assert.match(wrong.err, /--to "shop\/rediss": no running pod has this name; did you mean shop\/redis/);
    const one = await ask(DB + pod("shop/web", "10.244.0.3"), "--from", "shop/web", "--to", "shop/db", "-o", "json");
    assert.equal(matrixLines(one.out), "shop/web,shop/db,all,all\n");
  });

  it("MATRIX-07: a cluster IP that a rule names is not part of the outside, since rules never see it", async () => {
    const clusterIp = service("shop/web", "web", "{ port: 80 }", "clusterIP: 10.96.0.10");
    const egress = (peers: string): string =>
      pod("shop/cart") + clusterIp + policy(`{ podSelector: {}, policyTypes: [Egress], egress: [${peers}] }`);
    const old = egress("{ to: [{ ipBlock: { cidr: 10.96.0.10/32 } }] }");
    const { out } = await ask(old, "--from", "shop/cart");
    assert.match(out, /^shop\/cart +- +outside, any new pod$/m);
    const files = memoryFiles({ "a.yaml": old, "b.yaml": egress("") });
    assert.equal((await runCli(["policy", "diff", "a.yaml", "b.yaml"], files)).code, 0);
  });

  it("MATRIX-08: asked about new pods, the matrix lists what the outside and other new pods may send them, also as JSON", async () => {
    const { out } = await ask(pod("shop/web"), "--from", "outside", "--to", "any new pod");
    assert.match(out, /^outside +all +any new pod$/m);
    const rows = JSON.parse((await ask(pod("shop/web"), "--to", "any new pod", "-o", "json")).out) as {
      from: string;
    }[];
    const from = new Set(rows.map((one) => one.from));
    for (const name of ["outside 0.0.0.0/0", "shop/web", "new pod in shop"]) assert.ok(from.has(name), name);
  });

  it("MATRIX-08: a peer that selects no pod is listed as a possible new pod", async () => {
    const { out } = await ask(DB + policy(ADMITS), "--to", "shop/db", "--allowed-only");
    assert.equal(
      out,
      `TO        CONNECTIONS   FROM
shop/db   5432/TCP      new pod in a namespace with team=ops with backup=any, new pod in shop with app=web
`,
    );
    const there = await ask(DB + namespace("ops", "team: ops") + policy(ADMITS), "--to", "shop/db", "--allowed-only");
    assert.match(there.out, /new pod in ops with backup=any/, "a namespace that is there needs no new one");
    const closed = policy("{ podSelector: { matchLabels: { app: web } }, policyTypes: [Egress] }").replace(
      "name: p",
      "name: q",
    );
    const both = await ask(DB + policy(ADMITS) + closed, "--to", "shop/db", "--allowed-only");
    assert.doesNotMatch(both.out, /new pod in shop with app=web/, "the new pod's own policies apply to it, too");
    const open = await ask(DB, "--to", "shop/db");
    assert.equal(
      open.out,
      "TO        CONNECTIONS   FROM\nshop/db   all           all pods, outside IPv4, any new pod\n".replace(
        "all pods",
        "shop/db",
      ),
    );
  });

  it('MATRIX-08: only a terminal gets marks for "as in the line above", so each line of a file is complete', async () => {
    const args = ["policy", "matrix", "-f", "shop"];
    const wide = { columns: 200, hasColour: false };
    assert.match((await runCli(args, SHOP, wide)).out, / " +"$/m);
    assert.doesNotMatch((await runCli(args, SHOP)).out, / "/);
  });

  it("MATRIX-08: an answer about 3,000 workloads fits on a screen, and says what it omits", async () => {
    const pods = Array.from({ length: 3000 }, (_, i) =>
      JSON.stringify({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: `w${i}`, namespace: `n${i % 100}`, labels: { app: i % 3 === 0 ? "web" : "x" } },
        status: { phase: "Running" },
      }),
    );
    const [first = ""] = pods;
    const rule = {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "p", namespace: "n0" },
      spec: {
        podSelector: {},
        ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: "web" } } }] }],
      },
    };
    const files = memoryFiles({ "a.json": [...pods, JSON.stringify(rule)].join("\n") });
    const name = `n0/${(JSON.parse(first) as { metadata: { name: string } }).metadata.name}`;
    const screen = { columns: 100, hasColour: false };
    const { out } = await runCli(["policy", "matrix", "-f", "a.json", "--to", name], files, screen);
    assert.ok(out.split("\n").length < 30, out);
    assert.match(out, /and \d+ more \(-o json has all\)/);
  });
});
