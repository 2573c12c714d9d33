import assert from "node:assert/strict";
import { type Outcome, runCli } from "../../../support/cli/cli.ts";
import { fixtureFiles } from "../../../support/cli/golden.ts";
import { ask as run, manifest, named, pod } from "../../../support/cli/objects.ts";

const policy = (spec: string): string => manifest("NetworkPolicy", named("shop/p"), `spec: ${spec}`);
const PODS = pod("shop/db") + pod("shop/web") + pod("open/job") + pod("open/agent", "", { spec: "hostNetwork: true" });

interface Report {
  readonly pods: number;
  readonly selected: { readonly ingress: number; readonly egress: number };
  readonly unselected: readonly { readonly name: string; readonly directions: readonly string[] }[];
  readonly namespaces: readonly { readonly name: string; readonly ingress: boolean; readonly egress: boolean }[];
  readonly outside: readonly { readonly from: string; readonly to: string; readonly connections: readonly string[] }[];
}

const cover = (text: string, ...args: readonly string[]): Promise<Outcome> => run(text, "policy", "coverage", ...args);
const report = async (text: string, ...args: readonly string[]): Promise<Report> =>
  JSON.parse((await cover(text, "-o", "json", ...args)).out) as Report;

describe("policy coverage and policy describe", () => {
  it("COVER-01: a closed namespace counts as closed, and describe says what it omits, where policies tell too many kinds of new pods apart", async () => {
    const closed = policy("{ podSelector: {}, policyTypes: [Ingress, Egress] }");
    const many = Array.from({ length: 11 }, (_, i) =>
      manifest("NetworkPolicy", named(`shop/l${i}`), `spec: { podSelector: { matchLabels: { l${i}: x } } }`),
    ).join("");
    const { namespaces } = await report(pod("shop/web") + closed + many);
    assert.deepEqual(namespaces, [{ name: "shop", ingress: true, egress: true }]);
    const { out, err } = await run(pod("shop/web") + closed + many, "policy", "describe", "shop/web");
    assert.match(out, /any new pod/);
    assert.match(err, /^omitted: new pods, of which the policies tell too many kinds apart$/m);
  });

  it("COVER-01: pods that no policy selects, namespaces that are open by default and what the outside reaches are listed", async () => {
    const { pods, selected, unselected, namespaces, outside } = await report(
      PODS +
        policy(
          "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: 80 }] }] }",
        ),
    );
    assert.deepEqual([pods, selected], [3, { ingress: 1, egress: 0 }]);
    assert.deepEqual(
      unselected.map(({ name, directions }) => `${name} ${directions.join("+")}`),
      ["open/job ingress+egress", "shop/db egress", "shop/web ingress+egress"],
    );
    assert.deepEqual(namespaces, [
      { name: "open", ingress: false, egress: false },
      { name: "shop", ingress: false, egress: false },
    ]);
    const reached = outside.map(({ from, to, connections }) => `${from} > ${to} ${connections.join()}`);
    assert.ok(
      reached.includes("outside 192.0.2.0/24 > shop/db 80/TCP") && reached.includes("outside ::/0 > open/job all"),
    );
    assert.ok(
      !reached.some(
        (one) => one.includes("agent") || one.startsWith("outside 0.0.0.0/0 except 192.0.2.0/24 > shop/db"),
      ),
    );
  });

  it("COVER-01: one line has the numbers for CI, -n limits all of it, and without pods there is no answer", async () => {
    const text = PODS + policy("{ podSelector: {} }");
    const { code, out } = await cover(text, "-o", "line");
    assert.equal(code, 0);
    assert.equal(
      out,
      "coverage: ingress 2/3 pods (66%), 1/2 namespaces closed by default, egress 0/3 pods (0%), 0/2 namespaces closed by default; the outside reaches 1 workload\n",
    );
    assert.match((await cover(text, "-o", "line", "-n", "shop")).out, /^coverage: ingress 2\/2 pods \(100%\), 1\/1 /);
    assert.match((await cover(text, "-o", "line", "-n", "open")).out, /^coverage: ingress 0\/1 pods \(0%\), 0\/1 /);
    assert.equal((await cover(policy("{ podSelector: {} }"))).code, 3);
    const table = (await cover(text)).out;
    assert.match(table, /^NO POLICY SELECTS +FOR\nopen\/job +ingress, egress\n/m);
    assert.match(table, /^OPEN BY DEFAULT +FOR\nopen +ingress, egress\nshop +egress\n/m);
    assert.match(table, /^open\/job +all +outside$/m);
  });

  it("COVER-03: policy describe says which policies select a pod, with their places, and who reaches it", async () => {
    const { code, out } = await runCli(["policy", "describe", "shop/redis", "-f", "shop"], fixtureFiles("shop"));
    assert.equal(code, 0);
    assert.match(
      out,
      /^For ingress, shop\/statefulset\/redis is selected by .*NetworkPolicy shop\/redis \(shop\/shop_policies\.yaml:60\)\.$/m,
    );
    assert.match(out, /^shop\/statefulset\/redis +6379\/TCP +shop\/deployment\/cart$/m);
    const free = await run(PODS, "policy", "describe", "open");
    assert.match(
      free.out,
      /^No policy selects open\/job for egress: only the policies of others decide whom it reaches\.$/m,
    );
    const wrong = await run(PODS, "policy", "describe", "shop/bd");
    assert.deepEqual([wrong.code, /did you mean shop\/db/.test(wrong.err)], [3, true]);
  });
});
