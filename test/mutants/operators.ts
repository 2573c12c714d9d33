import { existsSync, globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { mutable, type Mutation } from "./mutations.ts";
import { killedBefore, nameOf, type Outcome, readOutcome, sample } from "./outcome.ts";
import { type Fate, type FileMutation, Trial } from "./trial.ts";

export interface OperatorOptions {
  /** Files and folders of the product, and patterns of test files, relative to the project. */
  readonly sources: readonly string[];
  readonly tests: readonly string[];
  readonly most: number;
  readonly seed: number;
  /** Where to write the outcome. */
  readonly json?: string;
  /** An earlier outcome: only what was killed then is tried. */
  readonly compare?: string;
}

/** Folders whose code decides and translates without an effect, so that unit tests judge all of it. */
export const PURE: readonly string[] =
  "cli/policy cni/configuration ipam kernel/ip kernel/netlink kernel/nftables objects policyd/policies/compile policyd/sources policyd/services".split(
    " ",
  );

const IMPORT = /^(?:import|export)(?! type\b)[^;]*?"(\.[^"]+\.ts)";|\bimport\("(\.[^"]+\.ts)"\)/gm;

/** The longest text of a change that is printed whole. */
const LONGEST_CHANGE = 80;

/** Returns the patterns of the unit tests of the top folders of sources. */
export function unitTestsOf(sources: readonly string[]): readonly string[] {
  return [...new Set(sources.map((source) => `test/unit/${source.split("/")[0]}/**/*.test.ts`))];
}

/**
 * Breaks code by operators and prints each mutant that no test notices.
 *
 * @returns the outcome, which the last line tells, too
 */
export async function runOperators(project: string, options: OperatorOptions): Promise<Outcome> {
  const started = performance.now();
  const details = findMutations(project, options.sources);
  const mutations = choose([...details.keys()], options);
  const tests = globSync([...options.tests], { cwd: project }).sort();
  using trial = new Trial(project, mutations, nearestTests(project, tests));
  print(
    `${mutations.length} of ${details.size} mutants (seed ${options.seed}), at most ${tests.length} files of tests`,
  );
  for (const title of await trial.begin()) print(`fails without a mutant and judges none: ${title}`);
  const outcome: { killed: string[]; survived: string[] } = { killed: [], survived: [] };
  for (const [number, mutation] of mutations.entries()) {
    const fate = await trial.fate(number);
    outcome[fate.kind].push(nameOf(mutation));
    const words = wordsOf(mutation, details.get(mutation), fate);
    if (fate.kind === "survived") print(words);
    else process.stderr.write(`${words}\n`);
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(outcome, undefined, 2)}\n`);
  const { killed, survived } = outcome;
  const seconds = Math.round((performance.now() - started) / 1000);
  print(
    `${mutations.length} mutants by operators: ${killed.length} killed, ${survived.length} survived (${seconds} s)`,
  );
  return outcome;
}

function findMutations(project: string, sources: readonly string[]): ReadonlyMap<FileMutation, Mutation> {
  const files = sources.flatMap((source) =>
    statSync(path.join(project, source)).isDirectory() ? globSync(`${source}/**/*.ts`, { cwd: project }) : [source],
  );
  const found = new Map<FileMutation, Mutation>();
  for (const file of [...new Set(files)].sort())
    for (const mutation of mutable(readFileSync(path.join(project, file), "utf8")).mutations)
      found.set({ file, id: mutation.id }, mutation);
  return found;
}

function choose(all: readonly FileMutation[], { most, seed, compare }: OperatorOptions): readonly FileMutation[] {
  if (compare === undefined) return sample(all, most, seed);
  const { mutations, gone } = killedBefore(all, readOutcome(compare));
  for (const name of gone) print(`no longer in the sources: ${name}`);
  return mutations;
}

function nearestTests(project: string, tests: readonly string[]): (file: string) => readonly string[] {
  const imports = new Imports(project);
  const closures = tests.map((test) => ({ test, closure: imports.closure(test) }));
  return (file) =>
    closures
      .flatMap(({ test, closure }) => ({ test, distance: closure.get(file) ?? Infinity }))
      .filter(({ distance }) => distance !== Infinity)
      .sort((one, other) => one.distance - other.distance)
      .map(({ test }) => test);
}

/** The imports among the files of a tree, by paths within it. */
class Imports {
  readonly #root: string;
  readonly #known = new Map<string, readonly string[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Returns the files that a file loads, itself included, with the number of imports that lead to each. */
  closure(file: string): ReadonlyMap<string, number> {
    const distances = new Map([[file, 0]]);
    // The loop also visits what it adds.
    for (const [importer, distance] of distances)
      for (const imported of this.#of(importer)) if (!distances.has(imported)) distances.set(imported, distance + 1);
    return distances;
  }

  #of(file: string): readonly string[] {
    const known = this.#known.get(file);
    if (known !== undefined) return known;
    const imports = [...readFileSync(path.join(this.#root, file), "utf8").matchAll(IMPORT)]
      .map(([, named, dynamic]) => path.join(path.dirname(file), named ?? dynamic ?? ""))
      .filter((name) => existsSync(path.join(this.#root, name)));
    this.#known.set(file, imports);
    return imports;
  }
}

function wordsOf(mutation: FileMutation, change: Mutation | undefined, fate: Fate): string {
  const words = `${nameOf(mutation)}  ${shortened(change?.from)}  ->  ${shortened(change?.to) || "(left out)"}`;
  return fate.kind === "killed" ? `killed ${words}  by ${fate.by}` : `SURVIVED ${words}  (${fate.why})`;
}

function shortened(text = ""): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length > LONGEST_CHANGE ? `${line.slice(0, LONGEST_CHANGE)}…` : line;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
