import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { Command, InvalidArgumentError, Option } from "commander";
import { createLab } from "../lab/lab.ts";
import { kernelObstacle } from "../support/privilege.ts";
import { PEER_VERSIONS, peerAdvice, peerDirectory, peerRefusal, peerVersion } from "../support/cni/peer.ts";
import { benchCli } from "./cli.ts";
import { CLI_SUBJECTS } from "./cli/scenarios.ts";
import { OURS, install, installShim, peerContestant } from "./contestant.ts";
import { thisMachine } from "./machine.ts";
import { benchDaemon, SUBJECTS as DAEMON_SUBJECTS } from "./daemon/daemon.ts";
import * as daemon from "./daemon/plan.ts";
import { benchCluster, SUBJECT_NAMES as CLUSTER_SUBJECTS } from "./cluster/cluster.ts";
import * as cluster from "./cluster/plan.ts";
import { benchNft } from "./nft.ts";
import type { ClusterSize } from "./policy/cluster.ts";
import * as policy from "./policy/plan.ts";
import { benchPolicy, SUBJECT_NAMES as POLICY_SUBJECTS } from "./policy/policy.ts";
import { RunDirectory } from "./run_directory.ts";
import { DEFAULT_PLAN, QUICK_PLAN } from "./services/plan.ts";
import { benchServices, SUBJECT_NAMES } from "./services/services.ts";
import { formatReport, type Report } from "./report.ts";
import { type Row, rowOf } from "./row.ts";
import { attach } from "./scenario/attach.ts";
import type { Scenario } from "./scenario/context.ts";
import { memory } from "./scenario/memory.ts";
import { parallel } from "./scenario/parallel.ts";
import { parallelDel } from "./scenario/parallel_del.ts";
import { policies } from "./scenario/policies.ts";
import { size } from "./scenario/size.ts";
import { throughput } from "./scenario/throughput.ts";
import { version } from "./scenario/version.ts";

/** The smallest number of pairs whose interval is narrow enough to show anything. */
const MINIMUM_PAIRS = 40;
const QUICK_PAIRS = 8;
const NFT_PAIRS = 200;
const CLI_RUNS = 5;
const QUIET_LOAD = 0.5;

const SCENARIOS: readonly Scenario[] = [
  version,
  attach,
  parallel(30),
  parallel(100),
  parallelDel(100),
  policies,
  memory,
  size,
  throughput,
];

const RESULTS = fileURLToPath(new URL("../../test-results/bench-cni.json", import.meta.url));

interface Options {
  readonly pairs: number;
  readonly quick: boolean;
  readonly only: readonly string[] | undefined;
  readonly output: "table" | "json";
}

interface DaemonOptions extends Omit<Options, "pairs" | "only"> {
  readonly only: readonly (typeof DAEMON_SUBJECTS)[number][] | undefined;
}

interface CliOptions extends Pick<Options, "output"> {
  readonly runs: number;
  readonly only: readonly (typeof CLI_SUBJECTS)[number][] | undefined;
}

interface PolicyOptions extends Omit<Options, "pairs">, Partial<ClusterSize> {}

const names = SCENARIOS.map(({ name }) => name);

const program = new Command("bench").description("Measures Drawbridge against its peers on this machine.");
program
  .command("cni")
  .description(
    `the plugin against the reference plugins bridge and host-local (${PEER_VERSIONS.join(" or ")}), in interleaved pairs`,
  )
  .option("--pairs <number>", `how many pairs, at least ${MINIMUM_PAIRS} unless --quick`, positiveInteger)
  .option("--quick", "a quick run: few pairs, which prove nothing", false)
  .addOption(new Option("--only <scenario...>", "only these").choices(names))
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action((given: Omit<Options, "pairs"> & { readonly pairs?: number }, command: Command) => {
    const pairs = given.pairs ?? (given.quick ? QUICK_PAIRS : MINIMUM_PAIRS);
    if (pairs < MINIMUM_PAIRS && !given.quick) {
      command.error(`--pairs ${pairs}: expected at least ${MINIMUM_PAIRS}; with --quick fewer are taken`);
    }
    process.exitCode = benchCni({ ...given, pairs });
  });
program
  .command("nft")
  .description("changes of nftables sets beside the program nft, in interleaved pairs")
  .option("--pairs <number>", "how many pairs of each small change", positiveInteger, NFT_PAIRS)
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(({ pairs, output }: Pick<Options, "pairs" | "output">) => {
    const obstacle = kernelObstacle();
    if (obstacle !== undefined) say(obstacle);
    if (obstacle === undefined) benchNft(pairs, output, progress);
    clearProgress();
    process.exitCode = obstacle === undefined ? 0 : 1;
  });
program
  .command("services")
  .description("Services beside kube-proxy's two nftables layouts, which the program nft loads")
  .option("--quick", "a quick run: few rounds, which prove nothing", false)
  .addOption(new Option("--only <subject...>", "only these").choices(SUBJECT_NAMES))
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(async ({ quick, only, output }: Omit<Options, "pairs">) => {
    const obstacle = kernelObstacle();
    if (obstacle !== undefined) say(obstacle);
    else await benchServices(quick ? QUICK_PLAN : DEFAULT_PLAN, only, output, progress);
    clearProgress();
    process.exitCode = obstacle === undefined ? 0 : 1;
  });
program
  .command("policy")
  .description("policies of a cluster of 10,000 pods: changes, builds, packets and cuts")
  .option("--quick", "a quick run: few rounds, which prove nothing", false)
  .addOption(new Option("--only <subject...>", "only these").choices(POLICY_SUBJECTS))
  .option("--pods <number>", "pods of the large cluster", positiveInteger)
  .option("--policies <number>", "policies of both clusters", positiveInteger)
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(async ({ quick, only, output, ...wanted }: PolicyOptions) => {
    const obstacle = kernelObstacle();
    const plan = quick ? policy.QUICK_PLAN : policy.DEFAULT_PLAN;
    if (obstacle !== undefined) say(obstacle);
    else await benchPolicy(policy.ofSize(plan, wanted), only, output, progress);
    clearProgress();
    process.exitCode = obstacle === undefined ? 0 : 1;
  });
program
  .command("daemon")
  .description("the whole daemon of a node with an API server, 10,000 pods and Services and 1,000 policies")
  .option("--quick", "a quick run: one start and 10 s of changes, which prove nothing", false)
  .addOption(new Option("--only <subject...>", "only these").choices(DAEMON_SUBJECTS))
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(async ({ quick, only, output }: DaemonOptions) => {
    const obstacle = kernelObstacle();
    if (obstacle !== undefined) say(obstacle);
    else await benchDaemon(quick ? daemon.QUICK_PLAN : daemon.DEFAULT_PLAN, only, output, progress);
    clearProgress();
    process.exitCode = obstacle === undefined ? 0 : 1;
  });
program
  .command("cluster")
  .description("policyd beside kube-proxy and the plugin beside Go's, with a real API server and a real containerd")
  .option("--quick", "a quick run: few rounds and 1,000 Services, which prove nothing", false)
  .addOption(new Option("--only <subject...>", "only these").choices(CLUSTER_SUBJECTS))
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(async ({ quick, only, output }: Omit<Options, "pairs">) => {
    const obstacle = kernelObstacle();
    if (obstacle !== undefined) say(obstacle);
    else await benchCluster(quick ? cluster.QUICK_PLAN : cluster.DEFAULT_PLAN, only, output, progress);
    clearProgress();
    process.exitCode = obstacle === undefined ? 0 : 1;
  });
program
  .command("cli")
  .description("the command line on a cluster of 10,000 pods and 1,000 policies")
  .option("--runs <number>", "how often each command is run", positiveInteger, CLI_RUNS)
  .addOption(new Option("--only <subject...>", "only these").choices(CLI_SUBJECTS))
  .addOption(new Option("-o, --output <format>", "what to print").choices(["table", "json"]).default("table"))
  .action(({ runs, only, output }: CliOptions) => {
    benchCli(runs, only, output, progress);
    clearProgress();
  });
await program.parseAsync();

/** Runs the benchmark of the plugin. @returns the exit code: 0 when everything was measured, whatever the result */
function benchCni(options: Options): number {
  const obstacle = kernelObstacle();
  const directory = peerDirectory();
  if (obstacle !== undefined || directory === undefined || !existsSync(OURS.executable)) {
    say(obstacle ?? (directory === undefined ? peerAdvice() : `${OURS.executable} is missing: npm run build`));
    return 1;
  }
  const versions = ["bridge", "host-local"].map((name) => peerVersion(path.join(directory, name)));
  const refusal = peerRefusal(versions);
  const comparable = refusal === undefined;
  if (refusal !== undefined) say(`${refusal}: no ratios are printed`);
  const machine = thisMachine();
  if (machine.load > QUIET_LOAD)
    say(`something else runs on this machine (load ${machine.load.toFixed(1)}): the intervals will be wide`);
  const started = performance.now();
  using lab = createLab("bench");
  using run = new RunDirectory();
  const cold = install(OURS, path.join(lab.scratch, "drawbridge"));
  const ours = installShim(cold, path.join(run.path, "plugin"));
  const peer = install(peerContestant(directory), path.join(lab.scratch, "peer"), ["host-local"]);
  const context = { lab, runDirectory: run.path, ours, cold, peer, pairs: options.pairs, progress };
  const home = lab.pod("plugin-server");
  const rows: Row[] = [];
  try {
    for (const scenario of SCENARIOS.filter(({ name }) => options.only?.includes(name) ?? true)) {
      ours.server.start(ours.executable, home);
      rows.push(...scenario.run(context).map((measured) => rowOf(measured, comparable)));
    }
  } finally {
    ours.server.end();
  }
  clearProgress();
  const report: Report = {
    machine,
    ours: "Drawbridge",
    peer: `bridge ${versions[0] ?? "unknown"} + host-local ${versions[1] ?? "unknown"}`,
    pairs: options.pairs,
    seconds: Math.round((performance.now() - started) / 1000),
    rows,
  };
  const json = `${JSON.stringify(report, undefined, 2)}\n`;
  mkdirSync(path.dirname(RESULTS), { recursive: true });
  writeFileSync(RESULTS, json);
  process.stdout.write(
    options.output === "json" ? json : `${formatReport(report)}\nall pairs: ${path.relative(process.cwd(), RESULTS)}\n`,
  );
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
