import { globSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { program } from "commander";
import { processorSeconds } from "../bench/process_usage.ts";
import { machineChanges, machineState } from "../support/machine_state.ts";
import { planRun } from "./plan.ts";
import { type Finished, runFiles } from "./pool.ts";
import { fileLines, inSeconds, reportLines, timeLines } from "./print.ts";
import { provenBehaviours } from "./proven.ts";
import { REPORT, type Report, totalsOf } from "./result.ts";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const ALL = "test/**/*.test.ts";
/** On two processors the third process uses the waits of the others. Other numbers have not been measured. */
const PROCESSES = 3;

interface Options {
  readonly grep?: string;
  readonly forbidOnly?: true;
  readonly seed: number;
  readonly processes: number;
  readonly times?: true;
}

program
  .name("npm test --")
  .description("runs the tests, side by side in several processes; those in test/exclusive/ at the end, one by one")
  .argument("[files...]", "test files, or folders of them; all when absent")
  .option("-g, --grep <pattern>", "run only tests whose full title matches")
  .option("--forbid-only", "fail where a test is marked as the only one to run")
  .option("--seed <number>", "the order of the files", Number, Math.trunc(Math.random() * 1e6))
  .option("--processes <number>", "how many files are run at once", Number, PROCESSES)
  .option("--times", "print the files that took the longest")
  .parse();

process.chdir(PROJECT);
process.exitCode = await main(program.args, program.opts<Options>());

/** Runs the chosen test files, prints the results, writes the report, and returns the exit code. */
async function main(chosen: readonly string[], options: Options): Promise<number> {
  const { grep, forbidOnly = false, seed, processes } = options;
  const start = performance.now();
  const isWhole = chosen.length === 0 && grep === undefined;
  const { together, exclusive } = planRun(filesOf(chosen), seed);
  print(
    `${String(together.length)} files in ${String(processes)} processes, then ${String(exclusive.length)} exclusive ones; load ${load()}; order: --seed ${String(seed)}`,
  );
  const machineBefore = machineState();
  const files: Finished[] = [];
  const onFinished = (finished: Finished): void => {
    files.push(finished);
    for (const line of fileLines(finished, chosen.length > 0)) print(line);
  };
  const assign = (file: string) => ({ file, grep, forbidOnly });
  const problems = [
    ...(await runFiles(together.map(assign), processes, onFinished)),
    ...(await runFiles(exclusive.map(assign), 1, onFinished)),
    ...machineChanges(machineBefore, machineState()).map(
      (change) => `the machine is not as it was before the tests: ${change}`,
    ),
  ];
  if (isWhole) problems.push(...provenBehaviours(files));
  const report: Report = { seed, files, problems };
  writeReport(report);
  if (options.times === true) for (const line of timeLines(files)) print(line);
  const tests = files.flatMap((file) => file.tests);
  if (tests.length === 0) print("No test ran: no file or title matches what was asked for.");
  const time = inSeconds(performance.now() - start);
  print(`\n${time} of the clock, ${inSeconds(1000 * processorSeconds(process.pid))} of the processors; load ${load()}`);
  for (const line of reportLines(report)) print(line);
  return totalsOf(files, problems).failed > 0 || tests.length === 0 ? 1 : 0;
}

/** Returns the test files that were asked for, as paths within the project. */
function filesOf(chosen: readonly string[]): readonly string[] {
  if (chosen.length === 0) return globSync(ALL);
  return chosen.flatMap((name) => {
    const file = path.relative(PROJECT, path.resolve(name));
    return statSync(file, { throwIfNoEntry: false })?.isDirectory() === true
      ? globSync(`${file}/**/*.test.ts`)
      : [file];
  });
}

function writeReport(report: Report): void {
  mkdirSync(path.dirname(REPORT), { recursive: true });
  writeFileSync(REPORT, `${JSON.stringify(report, null, 2)}\n`);
}

function load(): string {
  return os
    .loadavg()
    .map((value) => value.toFixed(1))
    .join(" ");
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
