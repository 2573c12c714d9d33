import assert from "node:assert/strict";
import type { ProgramResult } from "../../../../../cli/input/programs/programs.ts";
import type { ReadConnections } from "../../../../../cli/policy/live/conntrack_text.ts";
import { liveTables } from "../../../../../cli/policy/live/read_tables.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { ScriptedPrograms } from "../../../../support/cli/scripted_programs.ts";

const PODS = "kube-system drawbridge-a n1 Running\nkube-system drawbridge-b n2 Running\n";
const entry = (port: number): string =>
  `ipv4 2 tcp 6 100 ESTABLISHED src=10.244.0.2 dst=10.244.1.3 sport=${port} dport=80 src=10.244.1.3 dst=10.244.0.2 sport=80 dport=${port} [ASSURED] mark=0 use=1\n`;

const NOTHING = { kubeconfig: undefined, context: undefined };
type Answers = Readonly<Record<string, ProgramResult | string>>;
const read = (answers: Answers): Promise<readonly ReadConnections[]> =>
  liveTables(new ScriptedPrograms(answers), NOTHING);

describe("cli/policy/live: the conntrack tables of all nodes by kubectl", () => {
  it("LIVE-05: kubectl runs node connections in the daemon's container of each node of the given cluster", async () => {
    const programs = new ScriptedPrograms({ get: PODS, "drawbridge-a": entry(1) + entry(2), "drawbridge-b": entry(2) });
    const tables = await liveTables(programs, { kubeconfig: "/k", context: "c" });
    assert.deepEqual(
      tables.map(({ connections }) => connections.map(({ sourcePort }) => sourcePort)),
      [[1, 2], [2]],
    );
    const { called } = programs;
    assert.equal(called.length, 3);
    for (const call of called) assert.match(call, /^kubectl --kubeconfig=\/k --context=c /);
    assert.ok(
      called[1]?.endsWith("exec --namespace=kube-system drawbridge-a -- node cli/drawbridge.js node connections"),
      called[1],
    );
  });

  it("LIVE-05: without kubectl, daemons or their answer the error says what is missing and how else to get the tables", async () => {
    const cases: readonly (readonly [Answers, RegExp])[] = [
      [{ get: { type: "missing" } }, /--live runs your own kubectl, which is not in PATH: .*--ledger/],
      [{ get: "" }, /--live: no Pod with the label app\.kubernetes\.io\/name=drawbridge; .*--ledger/],
      [{ get: "kube-system d n1 Pending\n" }, /Pod kube-system\/d is Pending; expected Running: .*node n1/],
      [{ get: "kube-system d  \n" }, /Pod kube-system\/d is not on a node yet/],
      [
        {
          get: PODS,
          "drawbridge-a": { type: "failed", how: "exit code 1", words: "Forbidden: \u001b[2Jno" },
          "drawbridge-b": "",
        },
        /exec --namespace=kube-system drawbridge-a .*ended with exit code 1\n {4}Forbidden: \S+no/,
      ],
      [{ get: PODS, "drawbridge-a": "hello\n", "drawbridge-b": "" }, /^node n1:1: expected an entry/],
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
