import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import type { ProgramResult } from "../../../cli/input/programs/programs.ts";
import { memoryFiles, type Outcome, runCli } from "../../support/cli/cli.ts";
import { ScriptedPrograms } from "../../support/cli/scripted_programs.ts";

const DAEMONS = "drawbridge-a n1 Running image\ndrawbridge-b n2 Pending image\n";
const LOG = '{"pod":"shop/web-0","gone":"shop/cart-7","name":"db.shop.svc"}\nrefused web-0: dbv0 of kube-proxy\n';

/** A cluster of which one node answers and the other is down. */
function answerOf(words: readonly string[]): ProgramResult | string {
  if (words.includes("pods")) return DAEMONS;
  if (words.includes("nodes") && words.some((word) => word.startsWith("--selector="))) return "n1\nn2\nn3\n";
  if (words.includes("drawbridge-b")) return { type: "failed", how: "exit code 1", words: "container not found\n" };
  if (words.includes("doctor"))
    return { type: "failed", how: "exit code 1", words: "", output: '{"findings":["é"]}\n' };
  return words.includes("logs") ? LOG : `${words.at(-1)}\n`;
}

const bundle = (programs: ScriptedPrograms, ...args: readonly string[]): Promise<Outcome> =>
  runCli(["bundle", ...args], memoryFiles({}), undefined, undefined, { programs });
const tar = (archive: string, ...args: readonly string[]): string =>
  execFileSync("tar", ["-f", "-", ...args], { input: archive, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });

describe("cli/bundle", () => {
  it("BUNDLE-01: the archive has the state, tables, links, attachments, log and metrics of a node, and tar reads it", async () => {
    const programs = new ScriptedPrograms(answerOf);
    const { code, out, err } = await bundle(programs, "--node", "n1", "--context", "c");
    assert.deepEqual([code, err], [0, ""]);
    const names = tar(out, "-t").trim().split("\n");
    const ofNode = names.flatMap((name) => name.match(/^drawbridge-bundle\/n1\/(.+)\.\w+$/)?.[1] ?? []);
    const expected = "status links routes attachments failures version doctor policies metrics log";
    assert.deepEqual(new Set(ofNode), new Set(expected.split(" ")));
    assert.ok(names.includes("drawbridge-bundle/versions.json"));
    assert.equal(tar(out, "-xO", "drawbridge-bundle/n1/log.txt"), LOG);
    assert.equal(
      tar(out, "-xO", "drawbridge-bundle/n1/doctor.json"),
      '{"findings":["é"]}\n',
      "a doctor that ends with 1",
    );
    for (const call of programs.called) assert.match(call, /^kubectl --context=c /);
  });

  it("BUNDLE-01: what a node does not give is named on stderr and in the archive, with exit code 1", async () => {
    const { code, out, err } = await bundle(new ScriptedPrograms(answerOf));
    assert.equal(code, 1);
    assert.match(
      err,
      /^not collected: drawbridge-bundle\/n2\/log\.txt: kubectl ended with exit code 1: container not found$/m,
    );
    assert.equal(tar(out, "-xO", "drawbridge-bundle/missing.txt").split("\n").length, 12);
    assert.match(err, /^not collected: drawbridge-bundle\/n3: the node has no daemon$/m);
    assert.equal(tar(out, "-xO", "drawbridge-bundle/n1/log.txt"), LOG);
  });

  it("BUNDLE-01: Nodes that cannot be listed are named on stderr and in the archive, which has the rest, with exit code 1", async () => {
    const denied: ProgramResult = { type: "failed", how: "exit code 1", words: "Forbidden\n" };
    const answers = (words: readonly string[]) => (words.includes("nodes") ? denied : answerOf(words));
    const { code, out, err } = await bundle(new ScriptedPrograms(answers));
    assert.equal(code, 1);
    assert.match(err, /^not collected: drawbridge-bundle: nodes without a daemon: kubectl get nodes .*Forbidden$/m);
    assert.match(tar(out, "-xO", "drawbridge-bundle/missing.txt"), /nodes without a daemon: .*\n +Forbidden$/m);
    assert.equal(tar(out, "-xO", "drawbridge-bundle/n1/log.txt"), LOG);
  });

  it("BUNDLE-01: without kubectl or a daemon nothing is written, with exit code 3, and a terminal gets no archive", async () => {
    for (const answer of [{ type: "missing" } as const, ""]) {
      const { code, out, err } = await bundle(new ScriptedPrograms(() => answer));
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, /kubectl, which is not in PATH|no Pod with the label/);
    }
    const terminal = await runCli(["bundle"], memoryFiles({}), { columns: 80, hasColour: false });
    assert.deepEqual([terminal.code, terminal.out], [2, ""]);
  });
});
