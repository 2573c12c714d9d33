import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import Table from "cli-table3";
import { findToolchain } from "../setup/toolchain.mjs";
import { type Mutant, parseMutants, runsExecutable, selectMutants } from "./mutant.ts";
import { TreeCopy } from "./tree.ts";
import { judge, type Verdict, witnessProblem } from "./verdict.ts";

export const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
export const LIST = "test/mutants.yaml";

interface Outcome {
  readonly mutant: Mutant;
  readonly verdict: Verdict;
  readonly seconds: number;
}

/**
 * Applies the mutants of test/mutants.yaml one by one and demands that the named test of each notices.
 *
 * @param only ids; all when empty
 * @returns the number of mutants that were not killed
 * @throws MutantListError when the list is invalid, or an id unknown
 */
export function runList(only: readonly string[]): number {
  const mutants = selectMutants(parseMutants(readFileSync(path.join(PROJECT, LIST), "utf8")), only);
  using tree = new TreeCopy(PROJECT, findToolchain(PROJECT).node);
  const removeTree = (): void => tree[Symbol.dispose]();
  process.on("exit", removeTree);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

  if (mutants.some(runsExecutable)) tree.build();
  const problems = problemsOf(tree, mutants);
  const outcomes = mutants.map((mutant) => {
    const outcome = attempt(tree, mutant, problems.get(mutant.id));
    process.stderr.write(`${mutant.id}: ${wordsOf(outcome.verdict)}\n`);
    return outcome;
  });
  process.stdout.write(`${tableOf(outcomes)}\n`);
  const killed = outcomes.filter(({ verdict }) => verdict.kind === "killed").length;
  process.stdout.write(
    `${outcomes.length} mutants of ${LIST}: ${killed} killed, ${outcomes.length - killed} survived\n`,
  );
  return outcomes.length - killed;
}

/**
 * Runs every named test in the unbroken tree, once per file. Returns the problem of a mutant's test by the mutant's id.
 */
function problemsOf(tree: TreeCopy, mutants: readonly Mutant[]): ReadonlyMap<string, string> {
  const problems = new Map<string, string>();
  for (const [test, sharing] of Map.groupBy(mutants, (mutant) => mutant.test)) {
    process.stderr.write(`unbroken ${test}\n`);
    const tests = tree.run(test, titlePattern(sharing));
    for (const { id, title } of sharing) {
      const problem = witnessProblem(tests, title);
      if (problem !== undefined) problems.set(id, problem);
    }
  }
  return problems;
}

function attempt(tree: TreeCopy, mutant: Mutant, problem: string | undefined): Outcome {
  const started = performance.now();
  const verdict: Verdict =
    problem === undefined
      ? runMutant(tree, mutant)
      : { kind: "unclear", reason: `the named test cannot be a witness: ${problem}` };
  return { mutant, verdict, seconds: (performance.now() - started) / 1000 };
}

function runMutant(tree: TreeCopy, mutant: Mutant): Verdict {
  return tree.withMutant(mutant, () => {
    try {
      if (runsExecutable(mutant)) tree.build();
    } catch (error) {
      return { kind: "unclear", reason: error instanceof Error ? error.message : String(error) };
    }
    return judge(tree.run(mutant.test, titlePattern([mutant])), mutant.title);
  });
}

/** Returns a pattern that matches the full titles that contain one of the mutants' titles. */
function titlePattern(mutants: readonly Mutant[]): RegExp {
  return new RegExp(mutants.map(({ title }) => title.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|"));
}

function tableOf(outcomes: readonly Outcome[]): string {
  const table = new Table({
    head: ["mutant", "what was broken", "test", "outcome", "s"],
    colWidths: [32, 42, 42, 36, 6],
    wordWrap: true,
    style: { head: [], border: [] },
  });
  for (const { mutant, verdict, seconds } of outcomes) {
    const test = `${mutant.test.replace(/^test\//, "")}: ${mutant.title}`;
    const outcome =
      verdict.kind === "unclear" ? `UNCLEAR: ${verdict.reason}` : verdict.kind === "survived" ? "SURVIVED" : "killed";
    table.push([mutant.id, `${mutant.file}: ${mutant.breaks}`, test, outcome, seconds.toFixed(1)]);
  }
  return table.toString();
}

function wordsOf(verdict: Verdict): string {
  switch (verdict.kind) {
    case "killed":
      return `killed by ${verdict.by}`;
    case "survived":
      return "SURVIVED";
    case "unclear":
      return `UNCLEAR: ${verdict.reason}`;
  }
}
