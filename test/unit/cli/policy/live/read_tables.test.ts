import assert from "node:assert/strict";
import type { ProgramResult } from "../../../../../cli/input/programs/programs.ts";
import { liveTables } from "../../../../../cli/policy/live/read_tables.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { ScriptedPrograms } from "../../../../support/cli/scripted_programs.ts";

const PODS = "drawbridge-a n1 Running\ndrawbridge-b n2 Running\n";
const CLUSTER = { pods: PODS, nodes: "n1\nn2\n" };
const entry = (port: number): string =>
  `ipv4 2 tcp 6 100 ESTABLISHED src=10.244.0.2 dst=10.244.1.3 sport=${port} dport=80 src=10.244.1.3 dst=10.244.0.2 sport=80 dport=${port} [ASSURED] mark=0 use=1\n`;

const SYSTEM = { drawbridgeNamespace: "kube-system" };
type Answers = Readonly<Record<string, ProgramResult | string>>;
const read = (answers: Answers) => liveTables(new ScriptedPrograms(answers), SYSTEM);

describe("cli/policy/live: the conntrack tables of all nodes by kubectl", () => {
  it("LIVE-05: kubectl runs node connections in the daemon's container of each node of the given cluster", async () => {
    const programs = new ScriptedPrograms({
      ...CLUSTER,
      "drawbridge-a": entry(1) + entry(2),
      "drawbridge-b": entry(2),
    });
    const { tables, away } = await liveTables(programs, { ...SYSTEM, kubeconfig: "/k", context: "c" });
    assert.deepEqual(away, []);
    assert.deepEqual(
      tables.map(({ connections }) => connections.map(({ sourcePort }) => sourcePort)),
      [[1, 2], [2]],
    );
    const { called } = programs;
    assert.equal(called.length, 4);
    for (const call of called) assert.match(call, /^kubectl --kubeconfig=\/k --context=c /);
    assert.ok(
      called[2]?.endsWith("exec --namespace=kube-system drawbridge-a -- node cli/drawbridge.js node connections"),
      called[2],
    );
  });

  it("LIVE-05: only Pods of one namespace are daemons, kube-system or the one of --drawbridge-namespace", async () => {
    for (const namespace of ["kube-system", "drawbridge"]) {
      const given = namespace === "kube-system" ? [] : ["--drawbridge-namespace", namespace];
      for (const words of [
        "flows",
        "check",
        "bundle",
        "policy suggest --live -f a.yaml",
        "policy dry-run --live -f a.yaml --against a.yaml",
      ]) {
        const programs = new ScriptedPrograms({ ...CLUSTER, exec: "" });
        await runCli([...words.split(" "), ...given], memoryFiles({ "a.yaml": "" }), undefined, undefined, {
          programs,
        });
        const calls = programs.called.filter((call) => /--selector=app|exec --namespace/.test(call));
        assert.ok(calls.length > 0, words);
        for (const call of calls)
          assert.ok(call.includes(` --namespace=${namespace} `) || call.includes("=drawbridge-check-"), call);
      }
    }
  });

  it("LIVE-05: without kubectl, daemons or their answer the error says what is missing and how else to get the tables", async () => {
    const cases: readonly (readonly [Answers, RegExp])[] = [
      [{ pods: { type: "missing" } }, /--live runs your own kubectl, which is not in PATH: .*--ledger/],
      [
        { pods: "" },
        /--live: namespace kube-system has no Pod with the label app\.kubernetes\.io\/name=drawbridge; .*--drawbridge-namespace.*--ledger/,
      ],
      [
        { pods: "d n1 Pending\ne  Pending\n", nodes: "n1\nn2\n" },
        /--live: no daemon runs: n1 \(Pod kube-system\/d is Pending\), n2 \(no daemon\); give .*--ledger/,
      ],
      [{ pods: PODS, nodes: { type: "failed", how: "exit code 1", words: "no right" } }, /get nodes .*no right/s],
      [
        {
          ...CLUSTER,
          "drawbridge-a": { type: "failed", how: "exit code 1", words: "Forbidden: \u001b[2Jno" },
          "drawbridge-b": "",
        },
        /exec --namespace=kube-system drawbridge-a .*ended with exit code 1\n {4}Forbidden: \S+no/,
      ],
      [{ ...CLUSTER, "drawbridge-a": "hello\n", "drawbridge-b": "" }, /^node n1:1: expected an entry/],
    ];
    for (const [answers, expected] of cases) {
      await assert.rejects(read(answers), (error) => {
        assert.ok(error instanceof DrawbridgeError && error.code === "ERR_INPUT", String(error));
        assert.match(error.message, expected);
        return true;
      });
    }
  });
});
