import process from "node:process";
import { program } from "commander";
import { LIST, PROJECT, runList } from "./list.ts";
import { MutantListError } from "./mutant.ts";
import { PURE, runOperators, unitTestsOf } from "./operators.ts";

program
  .name("npm run test:mutants --")
  .description(
    `breaks our code and looks whether tests notice: as ${LIST} says, one line at a time, and in a sample of the pure ` +
      "folders by operators; with arguments only one of the two",
  )
  .argument("[sources...]", "files and folders of the product to break by operators")
  .option("--tests <patterns...>", "the test files that judge; otherwise the unit tests of the top folders")
  .option("--most <number>", "mutants by operators at most", Number, 200)
  .option("--seed <number>", "chooses the same mutants again", Number, Date.now() % 2 ** 31)
  .option("--json <file>", "writes which mutants were killed and which survived")
  .option("--compare <file>", "runs those that were killed when this file was written, and fails if one survives")
  .option("--only <ids...>", `runs only these mutants of ${LIST}`)
  .parse();

interface Options {
  readonly tests?: readonly string[];
  readonly most: number;
  readonly seed: number;
  readonly json?: string;
  readonly compare?: string;
  readonly only?: readonly string[];
}

const { only, ...options } = program.opts<Options>();

try {
  process.exitCode = await main(program.args);
} catch (error) {
  if (!(error instanceof MutantListError)) throw error;
  process.stderr.write(`${LIST}: ${error.message}\n`);
  process.exitCode = 1;
}

async function main(args: readonly string[]): Promise<number> {
  const unnoticed = args.length > 0 ? 0 : runList(only ?? []);
  if (only !== undefined) return Math.min(unnoticed, 1);
  const sources = args.length > 0 ? args : PURE;
  const { survived } = await runOperators(PROJECT, {
    ...options,
    sources,
    tests: options.tests ?? unitTestsOf(sources),
  });
  // Some mutants are equivalent, so a survivor is a fault only where it was killed before.
  const lost = options.compare === undefined ? 0 : survived.length;
  return Math.min(unnoticed + lost, 1);
}
