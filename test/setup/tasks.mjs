import {
  BENCH_TOOLS,
  CLUSTER_TOOLS,
  COMPILER,
  CONTAINERD,
  CONTAINER_TOOLS,
  CROSS_TOOLS,
  EMULATORS,
  ETCD,
  IMAGE_TOOLS,
  KERNEL_TOOLS,
  SERVERS,
  SHELLS,
  VIEWERS,
} from "./debian.mjs";

/** @typedef {import("./debian.mjs").Tool} Tool */

/**
 * @typedef {object} Command
 * @property {string} script a JavaScript or TypeScript file, relative to the project, run by Node 24
 * @property {readonly string[]} args
 */

/**
 * @typedef {object} Task
 * @property {boolean} builds whether the plugin executable and the daemon are built first
 * @property {readonly Tool[]} tools of the machine that it uses
 * @property {boolean} usesBridges whether br_netfilter is wanted
 * @property {Readonly<Record<string, string>>} env
 * @property {readonly Command[]} commands run in order until the first failure; the arguments go to the last
 */

/**
 * @param {string} script
 * @param {...string} args
 * @returns {Command}
 */
function command(script, ...args) {
  return { script, args };
}

const TESTS = "test/run/main.ts";
const TSC = "node_modules/typescript/bin/tsc";
const OXFMT = "node_modules/oxfmt/bin/oxfmt";

const RUNS_THE_PLUGIN = { builds: true, tools: KERNEL_TOOLS, usesBridges: true, env: {} };
const RUNS_TESTS = {
  ...RUNS_THE_PLUGIN,
  tools: [...KERNEL_TOOLS, ...SHELLS, ...SERVERS, ...VIEWERS, ...CONTAINER_TOOLS],
};
const READS_SOURCES = { builds: false, tools: [], usesBridges: false, env: {} };

/** The tasks of the npm scripts, by name. @type {ReadonlyMap<string, Task>} */
export const TASKS = new Map([
  ["demo", { ...RUNS_THE_PLUGIN, commands: [command("test/demo/demo.ts")] }],
  ["test", { ...RUNS_TESTS, commands: [command(TESTS)] }],
  [
    "test:full",
    {
      ...RUNS_TESTS,
      tools: [...new Set([...RUNS_TESTS.tools, ...IMAGE_TOOLS, ...CROSS_TOOLS])],
      env: { DRAWBRIDGE_FULL: "1" },
      commands: [command(TESTS)],
    },
  ],
  ["test:apiserver", { ...READS_SOURCES, tools: [ETCD], commands: [command("test/apiserver/real/run.ts")] }],
  [
    "test:cluster",
    {
      ...RUNS_THE_PLUGIN,
      tools: [...KERNEL_TOOLS, CONTAINERD, ...CLUSTER_TOOLS, ...IMAGE_TOOLS],
      commands: [command("test/cluster/main.ts")],
    },
  ],
  [
    "test:runtimes",
    {
      ...RUNS_THE_PLUGIN,
      tools: [...KERNEL_TOOLS, ...CONTAINER_TOOLS],
      commands: [command("test/runtimes/run.ts")],
    },
  ],
  [
    "test:kernels",
    {
      ...READS_SOURCES,
      tools: [...COMPILER, ...CROSS_TOOLS, ...IMAGE_TOOLS, ...EMULATORS],
      commands: [command("test/kernels/main.ts")],
    },
  ],
  ["mutants", { ...RUNS_TESTS, builds: false, commands: [command("test/mutants/run.ts")] }],
  [
    "bench",
    { ...RUNS_THE_PLUGIN, tools: [...KERNEL_TOOLS, ...BENCH_TOOLS], commands: [command("test/bench/bench.ts")] },
  ],
  ["image", { ...READS_SOURCES, builds: true, tools: IMAGE_TOOLS, commands: [command("test/setup/image.mjs")] }],
  [
    "release",
    {
      ...READS_SOURCES,
      tools: [...COMPILER, ...CROSS_TOOLS, ...IMAGE_TOOLS],
      commands: [command("test/setup/release/main.mjs")],
    },
  ],
  ["docs", { ...READS_SOURCES, commands: [command("test/reference/main.ts")] }],
  ["build", { ...READS_SOURCES, builds: true, commands: [] }],
  [
    "lint",
    {
      ...READS_SOURCES,
      commands: [
        command(OXFMT, "--check", "."),
        command("node_modules/oxlint/bin/oxlint", "--deny-warnings"),
        command("test/support/lint/prose.ts"),
      ],
    },
  ],
  ["format", { ...READS_SOURCES, commands: [command(OXFMT, ".")] }],
  // The plugin's modules once more, without the types of Node, which their engine does not have.
  ["typecheck", { ...READS_SOURCES, commands: [command(TSC, "--project", "cni"), command(TSC, "--project", ".")] }],
]);
