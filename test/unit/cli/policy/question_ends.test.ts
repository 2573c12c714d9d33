import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseLabelSelector } from "../../../../cli/input/label_selector.ts";
import { memoryFiles, type Outcome, runCli } from "../../../support/cli/cli.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const CLUSTERS = roundsFor("random policies and pods", 60, 600);

const pod = (namespace: string, name: string, labels = `app: ${name}`, more = ""): string =>
  `---\napiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, namespace: ${namespace}, labels: { ${labels} } }\nspec: { containers: [{ name: c }]${more} }\n`;
const policy = (peers: string, name = "p"): string =>
  `---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: ${name}, namespace: shop }\nspec: { podSelector: { matchLabels: { app: db } }, ingress: [{ from: [${peers}], ports: [{ port: 5432 }] }] }\n`;
const named = (name: string): string =>
  `{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${name} } } }`;
const DB = pod("shop", "db") + pod("shop", "web") + pod("other", "job");

const explain = (text: string, from: string, to = "shop/db", port = "5432"): Promise<Outcome> =>
  runCli(
    ["policy", "explain", "-f", "a.yaml", "--from", from, "--to", to, "--port", port, "-o", "json"],
    memoryFiles({ "a.yaml": text }),
  );

/** Returns the verdict, or the exit code where there is no answer. */
async function verdict(text: string, from: string, to?: string): Promise<string> {
  const { code, out } = await explain(text, from, to);
  if (code > 1) return `exit ${code}`;
  const { allowed, partly } = JSON.parse(out) as { allowed: boolean; partly: boolean };
  assert.equal(code, allowed ? 0 : 1);
  return partly ? "partly" : allowed ? "allowed" : "denied";
}

describe("policy explain and policy test: ends that are more than pods", () => {
  it("EXPLAIN-17: a namespace, labels, the outside and any new pod are judged with the pods that are in no file", async () => {
    const own = DB + policy("{ podSelector: {} }");
    const monitored = DB + policy(named("monitoring"));
    const broad =
      DB +
      policy("{ podSelector: { matchLabels: { app: web } } }, { ipBlock: { cidr: 0.0.0.0/0, except: [10.0.0.0/8] } }");
    for (const [text, from, expected] of [
      [own, "any new pod", "partly"],
      [own, "shop", "allowed"],
      [own, "shop/*", "allowed"],
      [own, "other/*", "denied"],
      [own, "outside", "denied"],
      [own, "shop/app=nobody-yet", "allowed"],
      [own, "*/app=web", "partly"],
      [own, "*/!app", "partly"],
      [monitored, "monitoring", "allowed"],
      [monitored, "monitoring/app in (a, b)", "allowed"],
      [monitored, "shop/*", "denied"],
      [DB, "any new pod", "allowed"],
      [broad, "shop/app=web", "allowed"],
      [broad, "shop/app!=web", "denied"],
      [broad, "outside", "partly"],
      // No policy and no object has the namespace, so its name is probably wrong.
      [own, "shopp/*", "exit 3"],
      [own, "monitoring", "exit 3"],
      // Policies select no pods of the host's network, whose node may be that of the other end.
      [own + pod("host", "agent", "app: agent", ", hostNetwork: true"), "host/agent", "exit 3"],
    ] as const) {
      assert.equal(await verdict(text, from), expected, `${from} in ${text}`);
    }
    assert.equal(await verdict(own, "shop/web", "any new pod"), "allowed");
    assert.equal(await verdict(own, "shop/web", "outside"), "allowed");
    const { err } = await explain(own, "shopp/*");
    assert.match(err, /"shopp\/\*" is not among the objects; did you mean other\/\* or shop\/\*\?/);
    const many = Array.from({ length: 11 }, (_, i) => `{ podSelector: { matchLabels: { l${i}: x } } }`).join();
    assert.equal((await explain(DB + policy(many), "any new pod")).code, 3);
  });

  it("EXPLAIN-17: the answer about any new pod is that of each pod that comes, with any labels in any namespace", async function () {
    this.timeout(600_000);
    const word = fc.constantFrom("a", "b", "c");
    const labels = fc.dictionary(fc.constantFrom("x", "y"), word, { maxKeys: 2 });
    const place = fc.constantFrom("shop", "other", "named", "unnamed");
    const selector = fc.oneof(
      labels.map((all) => `{ matchLabels: ${JSON.stringify(all)} }`),
      fc
        .tuple(fc.constantFrom("x", "y"), fc.constantFrom("In", "NotIn"), word)
        .map(
          ([key, operator, value]) =>
            `{ matchExpressions: [{ key: ${key}, operator: ${operator}, values: [${value}] }] }`,
        ),
    );
    const peer = fc.oneof(
      selector.map((one) => `{ podSelector: ${one} }`),
      fc
        .tuple(selector, fc.constantFrom("{}", "{ matchLabels: { kubernetes.io/metadata.name: named } }"))
        .map(([one, namespaces]) => `{ podSelector: ${one}, namespaceSelector: ${namespaces} }`),
    );
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(peer, { maxLength: 3 }), labels, place, async (peers, own, namespace) => {
        const text = DB + policy(peers.join());
        const all = await verdict(text, "any new pod");
        const one = await verdict(text + pod(namespace, "new", JSON.stringify(own).slice(1, -1)), `${namespace}/new`);
        seen.add(`${all} ${one}`);
        if (all !== "partly") assert.equal(one, all);
        const inPlace = namespace === "shop" || namespace === "other" ? await verdict(text, `${namespace}/*`) : all;
        if (inPlace !== "partly") assert.equal(one, inPlace);
      }),
      { numRuns: CLUSTERS, seed: countedSeed() },
    );
    assert.ok(seen.has("partly allowed") && seen.has("partly denied"), [...seen].join());
  });

  it("CLI-39: a name means the same in policy matrix, explain and test; one that is a pod's and a namespace's is an error", async () => {
    const text = `${DB}---\n${pod("shop", "api-1").replace("labels:", "ownerReferences: [{ controller: true, apiVersion: apps/v1, kind: StatefulSet, name: api, uid: u }], labels:")}`;
    const files = memoryFiles({ "a.yaml": text + policy("{ podSelector: {} }") });
    const tests = (to: string): string =>
      `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\ntests: [{ from: other/job, to: "${to}", port: 5432, expect: denied, reason: r }]\n`;
    for (const [to, count] of [
      ["shop/db", 1],
      ["shop/api", 1],
      ["shop", 3],
      ["shop/*", 3],
      ["shop/app in (db,web)", 2],
      ["shop/pod/db", 1],
    ] as const) {
      const matrix = await runCli(["policy", "matrix", "-f", "a.yaml", "--by", "pod", "--to", to, "-o", "json"], files);
      const ends = new Set((JSON.parse(matrix.out) as { to: string }[]).map((one) => one.to));
      const explained = JSON.parse((await explain(text, "other/job", to)).out) as { to: { hosts: string[] } };
      assert.deepEqual(
        explained.to.hosts.filter((name) => !name.startsWith("new pod")),
        [...ends].sort(),
        to,
      );
      assert.equal(ends.size, count, to);
      const both = { "a.yaml": text + policy("{ podSelector: {} }"), "t.yaml": tests(to) };
      const tested = await runCli(["policy", "test", "t.yaml", "-f", "a.yaml"], memoryFiles(both));
      assert.equal(tested.code, to.endsWith("/db") ? 0 : 1, tested.out);
    }
    for (const to of ["outside", "any new pod"]) {
      const { code, out } = await runCli(["policy", "matrix", "-f", "a.yaml", "--to", to], files);
      assert.equal(code, 0);
      assert.match(
        out,
        to === "outside" ? /^outside +all +all pods$/m : /^new pod in shop +all +all pods, outside, new pod/m,
      );
    }
    const twice = text + pod("default", "shop");
    for (const command of [["matrix"], ["explain", "--from", "other/job"]]) {
      const { code, err } = await runCli(
        ["policy", ...command, "-f", "a.yaml", "--to", "shop"],
        memoryFiles({ "a.yaml": twice }),
      );
      assert.equal(code, 3);
      assert.match(err, /"shop" is default\/shop and also a namespace; give default\/shop or shop\/\*/);
    }
  });

  it("CLI-39: expectations have namespaces, labels, the outside and any new pod as ends", async () => {
    const tests = [
      ["any new pod", "shop/app=db", "denied"],
      ["outside", "shop", "denied"],
      ["shop/tier=front", "shop/db", "allowed"],
      ["shop/*", "shop/db", "denied"],
    ].map(([from, to, expect]) => `  - { from: "${from}", to: "${to}", port: 5432, expect: ${expect}, reason: r }\n`);
    const files = {
      "a.yaml": pod("shop", "db") + policy("{ podSelector: { matchLabels: { tier: front } } }"),
      "t.yaml": `apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\ntests:\n${tests.join("")}`,
    };
    const { code, out } = await runCli(["policy", "test", "t.yaml", "-f", "a.yaml", "-o", "json"], memoryFiles(files));
    const results = (JSON.parse(out) as { tests: { actual: string }[] }).tests.map(({ actual }) => actual);
    assert.deepEqual([code, ...results], [1, "denied in part", "denied in part", "allowed", "denied in part"]);
  });

  it("CLI-39: selectors of labels are read as kubectl reads them, and other texts are refused", () => {
    const read = (text: string) =>
      parseLabelSelector(text)?.matchExpressions.map(
        ({ key, operator, values }) => `${key} ${operator} ${values.join("|")}`,
      );
    assert.deepEqual(read("app=web,x/y==z"), ["app In web", "x/y In z"]);
    assert.deepEqual(read("a in (b, c),d notin (e),f,!g,h!=i"), [
      "a In b|c",
      "d NotIn e",
      "f Exists ",
      "g DoesNotExist ",
      "h NotIn i",
    ]);
    assert.deepEqual(read("a="), ["a In "]);
    for (const wrong of ["", "a b", "=a", "a in b", "a=b,", "-a=b", "a=b c"])
      assert.equal(read(wrong), undefined, wrong);
  });
});
