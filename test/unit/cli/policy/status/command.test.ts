import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { type ReportedPolicy, reportLine } from "../../../../../policyd/policies/status/policy_report.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { manifest, named, namespace, node, objectsIn, ownedBy, pod } from "../../../../support/cli/objects.ts";
import { ScriptedPrograms } from "../../../../support/cli/scripted_programs.ts";
import { FakeCluster } from "../../../../support/daemon/fake_cluster.ts";

const PODS = "drawbridge-a n1 Running\ndrawbridge-b n2 Running\n";
const SINCE = Date.UTC(2026, 0, 2, 3, 4, 5);

const WORLD = objectsIn(
  namespace("shop") +
    node("n1") +
    node("n2") +
    [1, 2]
      .map((i) =>
        pod(`shop/db-${i}`, `10.0.0.${i}`, {
          app: "db",
          metadata: ownedBy("StatefulSet", "db"),
          spec: `nodeName: n${i}`,
        }),
      )
      .join("") +
    manifest(
      "NetworkPolicy",
      named("shop/db", "generation: 4"),
      "spec: { podSelector: { matchLabels: { app: db } }, ingress: [{ ports: [{ port: 5432 }] }, { ports: [{ port: 22 }] }] }",
    ) +
    manifest(
      "NetworkPolicy",
      named("shop/tried", 'generation: 1, annotations: { drawbridge.dev/shadow: "true" }'),
      "spec: { podSelector: { matchLabels: { app: nobody } } }",
    ),
);

function report(fields: Partial<ReportedPolicy> = {}): string {
  return reportLine({
    kind: "NetworkPolicy",
    key: "shop/db",
    generation: 4,
    inForce: 4,
    since: SINCE,
    state: "enforced",
    problems: [],
    rules: [0, 1].map((rule) => ({ direction: "ingress", rule, packets: rule === 0 ? 10 : 0 })),
    names: [],
    ...fields,
  });
}

const TRIED = report({ key: "shop/tried", generation: 1, inForce: 1, state: "shadow", rules: [] });

/** Runs `policy status` on nodes that give these answers one after the other and then repeat the last. */
async function status(
  args: readonly string[],
  first: readonly string[],
  second: readonly string[],
  objects = WORLD,
  pods = PODS,
) {
  const left: Readonly<Record<string, string[]>> = { "drawbridge-a": [...first], "drawbridge-b": [...second] };
  const programs = new ScriptedPrograms((words) => {
    const answers = left[words.find((word) => word in left) ?? ""];
    if (words.includes("nodes")) return "n1\nn2\n";
    return answers === undefined ? pods : answers.length > 1 ? answers.shift() : answers[0];
  });
  const cluster = new FakeCluster(objects);
  const outcome = await runCli(["policy", "status", ...args], memoryFiles({}), undefined, cluster, { programs });
  return { ...outcome, calls: programs.called, slept: cluster.slept };
}

describe("cli/policy/status", () => {
  it("PSTATUS-04: each policy is listed with its nodes, its time, its pods, its packets and its unused rules", async () => {
    const rules = [0, 1].map((rule) => ({ direction: "ingress" as const, rule, packets: 5 - 5 * rule }));
    const second = report({ since: SINCE + 60_000, rules });
    const given = ["--drawbridge-namespace", "cni"];
    const { code, out, err, calls } = await status(given, [report() + TRIED], [second + TRIED]);
    assert.deepEqual(out.split("\n"), [
      "POLICY       GENERATION   IN FORCE ON               SINCE                 SELECTS                       PACKETS   UNUSED RULES",
      "shop/db      4            2 of 2 nodes              2026-01-02 03:05:05   2 pods: shop/statefulset/db   15        ingress[1]",
      "shop/tried   1            2 of 2 nodes, in shadow   2026-01-02 03:04:05   no pod                        0",
      "",
    ]);
    assert.equal(code, 0);
    assert.doesNotMatch(err, /in force|not asked/);
    assert.ok(
      calls.some((call) =>
        call.endsWith(
          "--namespace=cni drawbridge-a -- node cli/drawbridge.js node policies --config=/etc/drawbridge/policyd.yaml",
        ),
      ),
    );
  });

  it("PSTATUS-04: a rule that a node with the policy's pods does not report is not called unused, since its number is not known", async () => {
    const ingress = { direction: "ingress" as const, packets: 0 };
    const all = [0, 1].map((rule) => ({ ...ingress, rule }));
    for (const [rules, unused, packets] of [
      [all, "ingress[0] ingress[1]", [0, 0]],
      [all.slice(0, 1), "ingress[0]; 1 not known", [0, null]],
      [[], "2 not known", [null, null]],
      [[{ ...ingress, rule: 1, packets: 4 }], "1 not known", [null, 4]],
    ] as const) {
      const asked = (...args: readonly string[]) =>
        status(["shop/db", ...args], [report({ rules: all })], [report({ rules })]);
      const { out } = await asked();
      assert.equal(out.split("\n")[1]?.split(/ {2,}/).at(-1), unused);
      const { policies } = JSON.parse((await asked("-o", "json")).out) as {
        readonly policies: readonly { readonly rules: readonly { readonly packets: number | null }[] }[];
      };
      assert.deepEqual(
        policies[0]?.rules.map((rule) => rule.packets),
        packets,
      );
    }
    const { out } = await status(["shop/db"], [report()], [report({ rules: [] })]);
    assert.match(out, / 10 +1 not known$/m, "a rule that one node has counted is used");
  });

  it("PSTATUS-04 PSTATUS-05: a node with the policy's pods and without a daemon that runs counts as missing, and is named", async () => {
    for (const [pods, why] of [
      ["drawbridge-a n1 Running\n", "no daemon"],
      ["drawbridge-a n1 Running\ndrawbridge-b n2 Pending\n", "Pod kube-system/drawbridge-b is Pending"],
    ] as const) {
      const { code, out, err } = await status(["--wait", "--timeout", "1s"], [report() + TRIED], [], WORLD, pods);
      assert.equal(code, 1);
      assert.match(out, /^shop\/db .* 1 of 2 nodes, not n2 /m);
      assert.match(out, /^shop\/tried .* 1 of 1 nodes, in shadow /m, "no pod of it is on the other node");
      assert.ok(err.endsWith(`note: not asked: n2 (${why})\nshop/db: generation 4 is not in force on n2\n`), err);
    }
  });

  it("PSTATUS-04: a policy with another generation, unknown on a node, or not yet in shadow there counts as missing on that node", async () => {
    for (const [line, words] of [
      [report({ inForce: 3 }) + TRIED, /shop\/db: generation 4 is not in force on n2 \(generation 3\)/],
      [TRIED, /shop\/db: generation 4 is not in force on n2\n/],
      [report({ state: "off" }) + TRIED, /shop\/db: generation 4 is not in force on n2/],
      [
        report() + report({ key: "shop/tried", generation: 1, inForce: 1 }),
        /shop\/tried: generation 1 is not in force on n2/,
      ],
    ] as const) {
      const { code, out, err } = await status([], [report() + TRIED], [line]);
      assert.equal(code, 1);
      assert.match(err, words);
      assert.match(out, /1 of 2 nodes(, in shadow)?, not n2/);
    }
  });

  it("PSTATUS-05: --wait returns when a generation is in force on every node, and at the timeout with exit code 1 and the nodes", async () => {
    const late = [report({ inForce: 3 }), report({ inForce: 3 }), report()];
    const waited = await status(["shop/db", "--wait"], [report()], late);
    assert.deepEqual([waited.code, waited.slept], [0, [1000, 1000]]);
    const never = await status(["db", "-n", "shop", "--wait", "--timeout", "3s"], [report()], [report({ inForce: 3 })]);
    assert.deepEqual([never.code, never.slept.length], [1, 3]);
    assert.match(never.err, /^shop\/db: generation 4 is not in force on n2 \(generation 3\)$/m);
  });

  it("PSTATUS-04: the reasons why a policy is not in force as written are below the table, each once", async () => {
    const restricted = report({ state: "restricted", problems: ["ingress[0]: it is too large\u001b[2J"] });
    const { code, out } = await status(["shop/db"], [restricted], [restricted]);
    assert.equal(code, 0);
    assert.equal(out.match(/shop\/db: ingress\[0\]: it is too large\\u\{1b\}\[2J/g)?.length, 1);
  });

  it("PSTATUS-04: names are listed with the addresses that pods know by them on each node, and names that no pod knows", async () => {
    const annotation = '"drawbridge.dev/egress-domain-names": "*.example.com:443 www.example.org:443"';
    const objects = objectsIn(
      manifest(
        "NetworkPolicy",
        named("shop/out", `generation: 1, annotations: { ${annotation} }`),
        "spec: { podSelector: {}, policyTypes: [Egress] }",
      ),
    );
    const known = { name: "api.example.com", address: parseAddress("2001:db8::7"), pod: "shop/db-1", seconds: 59 };
    const of = (names: ReportedPolicy["names"]) => report({ key: "shop/out", generation: 1, inForce: 1, names });
    const table = await status([], [of([known])], [of([{ ...known, pod: undefined }])], objects);
    assert.deepEqual(table.out.split("\n").slice(-5), [
      "POLICY     DOMAIN NAME       ADDRESS       KNOWN BY    NODE   FOR",
      "shop/out   api.example.com   2001:db8::7   shop/db-1   n1     59 s",
      "shop/out   api.example.com   2001:db8::7               n2     59 s",
      "shop/out   www.example.org   none",
      "",
    ]);
    const { out } = await status(["-o", "json"], [of([known])], [of([])], objects);
    const { policies } = JSON.parse(out) as { readonly policies: readonly Readonly<Record<string, unknown>>[] };
    assert.deepEqual(
      [policies[0]?.["names"], policies[0]?.["unknownNames"]],
      [[{ ...known, address: "2001:db8::7", node: "n1" }], ["www.example.org"]],
    );
    const full = await status([], [of(Array.from({ length: 50 }, () => known))], [of([])], objects);
    assert.doesNotMatch(full.out, /none/, "the name may be one of those that a node's report leaves out");
  });

  it("PSTATUS-04: -o json has the same content, and an unknown name is refused with the nearest", async () => {
    const { out } = await status(["shop/db", "-o", "json"], [report()], [TRIED]);
    const { policies } = JSON.parse(out) as { readonly policies: readonly Readonly<Record<string, unknown>>[] };
    assert.deepEqual(policies[0]?.["missing"], [{ node: "n2", inForce: null }]);
    assert.equal(policies[0]?.["since"], null);
    const wrong = await status(["shop/bd"], [report()], [report()]);
    assert.deepEqual(
      [wrong.code, /no policy of the cluster has this name; did you mean shop\/db\?/.test(wrong.err)],
      [3, true],
    );
    const broken = await status([], ["hello\n"], [report()]);
    assert.match(broken.err, /node n1:1: expected a policy as a JSON object/);
  });
});
