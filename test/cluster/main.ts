import process from "node:process";
import { Command, Option } from "commander";
import { installAddOn } from "./addon.ts";
import { ADMINISTRATOR, makeCluster, removeCluster } from "./cluster.ts";
import { runDailyLife } from "./daily_life/run.ts";
import { checkMachine, rememberMachine } from "./machine/check.ts";
import { makeMaterials } from "./materials.ts";
import { enterTerminal } from "./node/processes.ts";
import { OVERLAY_SUITES } from "./overlays/suites.ts";
import { buildPrograms } from "./programs.ts";
import { ProgramError } from "./run.ts";
import type { Settings } from "./settings.ts";
import { readCluster, type RunningCluster } from "./state.ts";
import { runFocused, runSuites } from "./suites/run.ts";
import { SUITES } from "./suites/suites.ts";

interface UpOptions {
  readonly nodes: number;
  readonly first: string;
  readonly singleStack?: true;
  readonly containerd: string;
}

const started = performance.now();
let isInterrupted = false;

/** Makes a signal end the cluster of this process, and then the process. */
function removeWhenInterrupted(): void {
  for (const [signal, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const) {
    process.on(signal, () => {
      if (isInterrupted) return;
      isInterrupted = true;
      say(`${signal}: removes the cluster`);
      removeCluster().then(
        () => {
          checkMachine(say);
          process.exit(code);
        },
        (error: unknown) => {
          console.error(error);
          process.exit(1);
        },
      );
    });
  }
}

/** Prints a line of progress with the seconds since the start. */
function say(line: string): void {
  console.log(`${((performance.now() - started) / 1000).toFixed(0).padStart(5)} s  ${line}`);
}

function settingsOf({ nodes, first, singleStack, containerd }: UpOptions): Settings {
  return {
    nodes,
    firstFamily: first === "6" ? 6 : 4,
    isDualStack: singleStack !== true,
    containerd: containerd === "2" ? 2 : 1,
  };
}

async function up(options: UpOptions): Promise<void> {
  const settings = settingsOf(options);
  const materials = makeMaterials(say);
  removeWhenInterrupted();
  await removeCluster();
  rememberMachine();
  installAddOn(await makeCluster(settings, materials, say), materials, say);
}

/** Runs a program in this terminal, on a node or on the machine that holds the nodes. */
function enterPlace(name: string | undefined, command: readonly string[]): void {
  const cluster = theCluster();
  const node = cluster.nodes.find((one) => one.name === name);
  if (node === undefined && name !== undefined) {
    throw new ProgramError(
      `node "${name}" does not exist: give one of ${cluster.nodes.map((one) => one.name).join(", ")}`,
    );
  }
  const searched = `${buildPrograms(say).kubernetes.directory}:${process.env["PATH"] ?? ""}`;
  const args = [
    "env",
    `KUBECONFIG=${ADMINISTRATOR}`,
    `PATH=${searched}`,
    ...(command.length === 0 ? ["bash"] : command),
  ];
  process.exitCode =
    node === undefined ? enterTerminal("machine", cluster.machine, args) : enterTerminal("node", node.first, args);
}

function theCluster(): RunningCluster {
  const cluster = readCluster();
  if (cluster === undefined) throw new ProgramError("no cluster is up: make one with npm run test:cluster -- up");
  return cluster;
}

const program = new Command("npm run test:cluster --")
  .enablePositionalOptions()
  .description("runs upstream's suites against a real cluster, whose nodes are namespaces of this machine")
  .option(
    "--suite <name...>",
    `only these: ${[...SUITES, ...OVERLAY_SUITES].map(({ name }) => name).join(", ")}; overlays is several of them`,
  )
  .option("--quick", "a short choice of tests on one cluster, 6 minutes once everything is built")
  .option("--resume", "omits the suites that an interrupted run has completed")
  .option("--record", "writes the results as the expectation of later runs")
  .action(async (options: { suite?: readonly string[]; quick?: true; resume?: true; record?: true }) => {
    removeWhenInterrupted();
    await removeCluster();
    rememberMachine();
    const isAsExpected = await runSuites(options, say);
    process.exitCode = checkMachine(say) && isAsExpected ? 0 : 1;
  });

/** Adds a command with the options of a cluster's settings. */
function withCluster(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .addOption(new Option("--nodes <number>", "how many nodes").default(2).argParser(Number))
    .addOption(new Option("--first <family>", "the family of a node's first address").choices(["4", "6"]).default("4"))
    .option("--single-stack", "only the first family")
    .addOption(new Option("--containerd <major>", "1 is Debian's, 2 is built").choices(["1", "2"]).default("1"));
}

withCluster("up", "makes a cluster with the add-on and leaves it running").action(up);

withCluster(
  "daily-life",
  "counts the connections that fail while pods, daemons, runtimes, nodes and builds are replaced",
)
  .option("--step <expression>", "only the steps whose names match")
  .option("--revision <revision>", "upgrade to this revision of the repository, not to this one with another schema")
  .action(async ({ step, revision, ...options }: UpOptions & { step?: string; revision?: string }) => {
    removeWhenInterrupted();
    await removeCluster();
    rememberMachine();
    const settings = settingsOf(options);
    const chosen = { ...(step === undefined ? {} : { step }), ...(revision === undefined ? {} : { revision }) };
    const isSound = await runDailyLife({ settings, ...chosen }, say);
    process.exitCode = checkMachine(say) && isSound ? 0 : 1;
  });

program
  .command("down")
  .description("ends the cluster, removes everything that it left, and compares the machine with what it was before")
  .action(async () => {
    await removeCluster();
    process.exitCode = checkMachine(say) ? 0 : 1;
  });

program
  .command("e2e")
  .description("runs the tests of upstream's e2e.test that match, on the cluster that is up")
  .argument("<focus...>", "regular expressions for their titles")
  .action(async (focus: readonly string[]) => {
    process.exitCode = (await runFocused(theCluster(), buildPrograms(say).kubernetes.directory, focus, say)) ? 0 : 1;
  });

program
  .command("shell")
  .description("a shell, or a command, on a node or (without a node) where kubectl reaches the cluster")
  .option("--node <name>")
  .argument("[command...]")
  .passThroughOptions()
  .action((command: readonly string[], options: { node?: string }) => enterPlace(options.node, command));

try {
  await program.parseAsync();
} catch (error) {
  // Ctrl-C also reaches the programs that this process waits for, and this process's own handler runs only after them.
  await new Promise((resolve) => setTimeout(resolve, 100));
  // The signal's handler removes the cluster, which makes commands fail, and then ends this process.
  if (isInterrupted) await new Promise(() => undefined);
  if (!(error instanceof ProgramError)) throw error;
  console.error(`test:cluster: ${error.message}`);
  process.exitCode = 1;
}
