import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";
import { networkPolicy, workload } from "../../../../support/cli/objects.ts";
import { ScriptedPrograms } from "../../../../support/cli/scripted_programs.ts";

const WORKLOADS =
  workload("Deployment", "shop/web") +
  workload("StatefulSet", "shop/db") +
  workload("DaemonSet", "shop/agent") +
  workload("Job", "shop/load");
const DENY = networkPolicy("shop/db", "podSelector: { matchLabels: { app: db } }");
const flow = (from: object, to: string, port = 5432): string =>
  `${JSON.stringify({ from, to: { workload: to }, protocol: "TCP", port, verdict: "allowed", observedAt: "from", firstSeen: "2026-11-01T00:00:00Z", lastSeen: "2026-11-02T00:00:00Z", count: 3, open: 1, bytes: 100 })}\n`;

const dryRun = (ledger: string, ...args: readonly string[]): Promise<Outcome> =>
  runCli(
    ["policy", "dry-run", "-f", "deny.yaml", "--against", "a.yaml", "--ledger", "flows.jsonl", ...args],
    memoryFiles({ "a.yaml": WORKLOADS, "deny.yaml": DENY, "flows.jsonl": ledger }),
  );
const suggest = (ledger: string, namespace = "shop"): Promise<Outcome> =>
  runCli(
    ["policy", "suggest", "-n", namespace, "-f", "a.yaml", "--ledger", "flows.jsonl"],
    memoryFiles({ "a.yaml": WORKLOADS, "flows.jsonl": ledger }),
  );

describe("cli/policy/live: ledgers with workloads whose pods are not in the files", () => {
  for (const [what, from] of [
    ["a Deployment", { workload: "shop/deployment/web" }],
    ["a StatefulSet with itself", { workload: "shop/statefulset/db" }],
    ["a DaemonSet", { workload: "shop/daemonset/agent" }],
    ["a Job", { workload: "shop/job/load" }],
    ["the outside", { outside: "203.0.113.0/24" }],
  ] as const) {
    it(`LIVE-08: a flow of ${what} to a template's pods is judged, and its cut is exit code 1`, async () => {
      const { code, out } = await dryRun(flow(from, "shop/statefulset/db"));
      assert.equal(code, 1);
      assert.match(out, /^of [12] connections? [12] would be cut$/m);
      const json = await dryRun(flow(from, "shop/statefulset/db"), "-o", "json");
      assert.doesNotMatch(json.out, /"(240\.|100::)/, "no stand-in's address is shown");
    });
  }

  it("LIVE-08: where nothing of a ledger can be judged, the exit code is 3", async () => {
    const { code, err } = await dryRun(flow({ workload: "shop/deployment/gone" }, "shop/deployment/lost"));
    assert.equal(code, 3);
    assert.match(err, /no pod or node has this name[^]*none of the connections could be judged/);
    assert.equal((await dryRun("")).code, 3);
    assert.equal((await dryRun(flow({ workload: "shop/deployment/web" }, "shop/daemonset/agent"))).code, 0);
  });

  it("LIVE-08: a table of connections in which no pod of the files has an address is exit code 3, as is an empty one", async () => {
    for (const table of [
      "",
      "tcp 6 9 ESTABLISHED src=10.0.1.1 dst=10.0.1.2 sport=5 dport=7 src=10.0.1.2 dst=10.0.1.1 sport=7 dport=5 use=1\n",
    ]) {
      const programs = new ScriptedPrograms({ pods: "drawbridge-a n1 Running\n", nodes: "n1\n", exec: table });
      const { code, err } = await runCli(
        ["policy", "dry-run", "-f", "deny.yaml", "--against", "a.yaml", "--live"],
        memoryFiles({ "a.yaml": WORKLOADS, "deny.yaml": DENY }),
        undefined,
        undefined,
        { programs },
      );
      assert.equal(code, 3);
      assert.match(err, /none of the connections could be judged; expected some of these pods/);
    }
  });

  it("SUGGEST-11: a flow with a workload that is in no file is named as not allowed, with exit code 1", async () => {
    const known = flow({ workload: "shop/deployment/web" }, "shop/statefulset/db");
    for (const [from, to, words] of [
      [
        "monitoring/deployment/prometheus",
        "shop/statefulset/db",
        "shop/statefulset/db from monitoring/deployment/prometheus",
      ],
      ["shop/deployment/web", "payments/deployment/api", "shop/deployment/web to payments/deployment/api"],
      ["shop/deployment/web", "shop/deployment/gone", "shop/deployment/web to shop/deployment/gone"],
    ] as const) {
      const { code, out, err } = await suggest(known + flow({ workload: from }, to, 9090));
      assert.equal(code, 1, err);
      assert.match(out, /name: observed-db/);
      assert.ok(err.includes(`not allowed: ${words}, 9090/TCP: nothing of that name\n`), err);
    }
    const elsewhere = await suggest(known + flow({ workload: "mon/deployment/a" }, "mon/deployment/b"));
    assert.equal(elsewhere.code, 0);
  });
});
