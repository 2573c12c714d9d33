import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../support/cli/cli.ts";
import { manifest, networkPolicy, node, pod } from "../../../support/cli/objects.ts";

const POD = pod("a/p");
const NODE = node("node-1");
const policy = (app: string): string => networkPolicy(`a/${app}`, `podSelector: { matchLabels: { app: ${app} } }`);
const cluster = (name: string, action: string, { priority = 1, label = "p" } = {}): string =>
  manifest(
    "ClusterNetworkPolicy",
    `name: ${name}`,
    `spec: { tier: Admin, priority: ${priority}, subject: { pods: { podSelector: { matchLabels: { app: ${label} } } } }, ` +
      `ingress: [{ action: ${action}, from: [{ namespaces: {} }] }] }`,
  );

const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  matrix: ["policy", "matrix", "-f", "a.yaml"],
  explain: ["policy", "explain", "--from", "a/p", "--to", "a/p", "-f", "a.yaml"],
  rules: ["rules", "--node", "node-1", "-f", "a.yaml"],
  diff: ["policy", "diff", "a.yaml", "a.yaml"],
  // The doubts about the change itself are its warnings.
  "dry-run": ["policy", "dry-run", "--against", "a.yaml", "-f", "change.yaml"],
};

/** Returns the lines that each command writes to stderr about some objects. */
async function said(texts: readonly string[], commands = Object.keys(COMMANDS)): Promise<ReadonlyMap<string, string>> {
  const files = memoryFiles({ "a.yaml": texts.join(""), "change.yaml": "" });
  const outcomes = new Map<string, string>();
  for (const name of commands) {
    const outcome: Outcome = await runCli(COMMANDS[name] ?? [], files);
    outcomes.set(name, outcome.err);
  }
  return outcomes;
}

function assertSaid(all: ReadonlyMap<string, string>, line: RegExp, isSaid = true): void {
  for (const [command, err] of all) assert.equal(line.test(err), isSaid, `${command}: ${err}`);
}

describe("notes about doubtful answers", () => {
  it("READ-13: every command reports policies that select none of the pods that were read, with their places", async () => {
    const line = /^(old: |new: )?NetworkPolicy a\/ghost \(a\.yaml:3\) selects none of the pods that were read$/m;
    assertSaid(await said([POD, policy("ghost"), NODE]), line);
    assertSaid(await said([POD, policy("p"), NODE]), /selects? none/, false);
    const both = [POD, policy("ghost"), cluster("far", "Deny", { label: "ghost" }), NODE];
    assertSaid(
      await said(both),
      /NetworkPolicy a\/ghost \(a\.yaml:3\), ClusterNetworkPolicy far \(a\.yaml:5\) select none of/,
    );
  });

  it("READ-13: every command reports ClusterNetworkPolicies of one priority that contradict each other about the same pods", async () => {
    const line =
      /ClusterNetworkPolicies one \(a\.yaml:3\) and two \(a\.yaml:5\) have tier Admin and priority 1, contradict each other and are for the same pods: which one counts is undefined$/m;
    assertSaid(await said([POD, cluster("one", "Accept"), cluster("two", "Deny"), NODE]), line);
    for (const [what, other] of [
      ["another priority", cluster("two", "Deny", { priority: 2 })],
      ["the same action", cluster("two", "Accept")],
      ["other pods", cluster("two", "Deny", { label: "q" })],
    ] as const) {
      const texts = [POD, pod("a/q"), cluster("one", "Accept"), other, NODE];
      const all = await said(texts);
      assertSaid(all, /contradict/, false);
      assert.equal(all.size, Object.keys(COMMANDS).length, what);
    }
  });

  it("READ-13: every command reports that no pods, or no objects, were read", async () => {
    const asking = ["matrix", "rules", "diff", "dry-run"];
    assertSaid(
      await said([policy("p"), NODE], asking),
      /no pods and no workloads were read: policies select nobody, and nobody sends anything$/m,
    );
    const nothing =
      /nothing was read on which an answer depends: give policies, and the pods or workloads that they are for$/m;
    assertSaid(await said(["# nothing\n"], ["matrix", "diff", "dry-run"]), nothing);
    for (const text of [policy("p"), "", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }\n"]) {
      const { err } = await runCli(["policy", "lint", "-f", "a.yaml"], memoryFiles({ "a.yaml": text }));
      assert.match(err, text === policy("p") ? /^no pods and no workloads/ : /^nothing was read/);
    }
    assertSaid(await said([POD, NODE]), /nothing was read|no pods/, false);
  });
});
