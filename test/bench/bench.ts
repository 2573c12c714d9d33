import { existsSync } from "node:fs";
import process from "node:process";
import { Command, InvalidArgumentError, Option } from "commander";
import { kernelObstacle } from "../support/privilege.ts";
import { PEER_VERSION, peerAdvice, peerDirectory, peerRefusal } from "../support/cni/peer.ts";
import { clusterSubjects } from "./cluster/cluster.ts";
import * as cluster from "./cluster/plan.ts";
import { cniSubjects } from "./cni.ts";
import { OURS } from "./contestant.ts";
import { daemonSubjects } from "./daemon/daemon.ts";
import * as daemon from "./daemon/plan.ts";
import { thisMachine } from "./machine.ts";
import { measureSubjects, type Subjects, type Wanted } from "./subjects.ts";

/** The smallest number of pairs whose interval is narrow enough to show anything. */
const MINIMUM_PAIRS = 40;
const QUICK_PAIRS = 8;
const QUIET_LOAD = 0.5;

interface Given extends Wanted {
  readonly quick: boolean;
}

/** A benchmark of the kernel's side, which needs root. */
interface Benchmark {
  readonly name: string;
  readonly description: string;
  readonly subjects: (isQuick: boolean) => Subjects;
}

const BENCHMARKS: readonly Benchmark[] = [
  {
    name: "daemon",
    description: "the whole daemon of a node with an API server, 10,000 pods and Services and 1,000 policies",
    subjects: (isQuick) => daemonSubjects(isQuick ? daemon.QUICK_PLAN : daemon.DEFAULT_PLAN),
  },
  {
    name: "cluster",
    description: "policyd beside kube-proxy, with a real API server",
    subjects: (isQuick) => clusterSubjects(isQuick ? cluster.QUICK_PLAN : cluster.DEFAULT_PLAN),
  },
];

const program = new Command("bench").description("Measures Drawbridge against its peers on this machine.");
withOptions(program.command("cni"), Object.keys(cniSubjects("", 1)))
  .description(`the plugin against the reference plugins bridge and host-local (${PEER_VERSION}), in interleaved pairs`)
  .option("--pairs <number>", `how many pairs, at least ${MINIMUM_PAIRS} unless --quick`, positiveInteger)
  .action(async (given: Given & { readonly pairs?: number }, command: Command) => {
    const pairs = given.pairs ?? (given.quick ? QUICK_PAIRS : MINIMUM_PAIRS);
    if (pairs < MINIMUM_PAIRS && !given.quick) {
      command.error(`--pairs ${pairs}: expected at least ${MINIMUM_PAIRS}; with --quick fewer are taken`);
    }
    process.exitCode = await benchCni(given, pairs);
  });
for (const { name, description, subjects } of BENCHMARKS) {
  withOptions(program.command(name), Object.keys(subjects(true)))
    .description(description)
    .action(async (given: Given) => {
      const obstacle = kernelObstacle();
      if (obstacle !== undefined) say(obstacle);
      else await measureSubjects(name, subjects(given.quick), given, progress);
      clearProgress();
      process.exitCode = obstacle === undefined ? 0 : 1;
    });
}
await program.parseAsync();

function withOptions(command: Command, subjects: readonly string[]): Command {
  return command
    .option("--quick", "a quick run: few rounds, which prove nothing", false)
    .addOption(new Option("--only <subject...>", "only these").choices(subjects));
}

/** Runs the benchmark of the plugin. @returns the exit code: 0 when everything was measured, whatever the result */
async function benchCni(wanted: Wanted, pairs: number): Promise<number> {
  const obstacle = kernelObstacle();
  const directory = peerDirectory();
  if (obstacle !== undefined || directory === undefined || !existsSync(OURS.executable)) {
    say(obstacle ?? (directory === undefined ? peerAdvice() : `${OURS.executable} is missing: npm run build`));
    return 1;
  }
  const refusal = peerRefusal(directory);
  if (refusal !== undefined) {
    say(refusal);
    return 1;
  }
  const { load } = thisMachine();
  if (load > QUIET_LOAD) {
    say(`something else runs on this machine (load ${load.toFixed(1)}): the intervals will be wide`);
  }
  const programs = [`bridge ${PEER_VERSION} + host-local ${PEER_VERSION}`];
  await measureSubjects("cni", cniSubjects(directory, pairs), wanted, progress, programs);
  clearProgress();
  return 0;
}

function positiveInteger(text: string): number {
  if (!/^[1-9][0-9]{0,4}$/.test(text)) throw new InvalidArgumentError(`${text}: expected a number from 1 to 99999`);
  return Number(text);
}

function say(text: string): void {
  process.stderr.write(`bench: ${text}\n`);
}

/** Prints one line that the next one overwrites, only on a terminal. */
function progress(step: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${step}`);
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
}
