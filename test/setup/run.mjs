import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { loadBridgeNetfilter } from "./bridge_netfilter.mjs";
import { buildPlugin } from "./build.mjs";
import { buildCli } from "./build_cli.mjs";
import { buildDaemon } from "./build_daemon.mjs";
import { TOOL_DIRECTORIES, ensureTools } from "./debian.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { ensurePackages } from "./packages.mjs";
import { TASKS } from "./tasks.mjs";

/** @typedef {import("./toolchain.mjs").Toolchain} Toolchain */
/** @typedef {{ code: number } | { signal: NodeJS.Signals }} Outcome */

const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

try {
  const [name = "", ...args] = process.argv.slice(2);
  end(await runTask(name, args));
} catch (error) {
  const words = foreseen(error);
  if (words === undefined) throw error;
  say(words);
  process.exitCode = 1;
}

/**
 * The words for a failure that is no bug of the set-up; undefined for one that is, which deserves its stack trace.
 *
 * @param {unknown} error
 * @returns {string | undefined}
 */
function foreseen(error) {
  if (error instanceof SetupFailure) return error.message;
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  switch (error.code) {
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return `${error.message}. Another user made these files: run as that user, or remove dist and node_modules.`;
    case "ENOSPC":
      return `${error.message}. The disk is full: Drawbridge needs 600 MB for its packages and the executable.`;
    default:
      return undefined;
  }
}

/**
 * Sets up what a task needs and runs it.
 *
 * @param {string} name
 * @param {readonly string[]} args for the task's last command
 * @returns {Promise<Outcome>} how the task ended
 * @throws {SetupFailure} when it could not be started
 */
async function runTask(name, args) {
  const task = TASKS.get(name);
  if (task === undefined) {
    throw new SetupFailure(`no task "${name}"; give one of ${[...TASKS.keys()].join(", ")}`);
  }
  const toolchain = ensurePackages(PROJECT);
  ensureTools(task.tools);
  if (task.usesBridges) loadBridgeNetfilter();
  if (task.builds) {
    buildPlugin(PROJECT, toolchain.bun);
    buildDaemon(PROJECT, toolchain.bun);
    buildCli(PROJECT, toolchain.bun);
  }
  const env = { ...environment(toolchain), ...task.env };
  for (const [index, { script, args: fixed }] of task.commands.entries()) {
    const isLast = index === task.commands.length - 1;
    if (!existsSync(path.join(PROJECT, script))) throw new SetupFailure(`${script} does not exist in this tree yet`);
    const outcome = await runNode(toolchain.node, [script, ...fixed, ...(isLast ? args : [])], env);
    if (!("code" in outcome) || outcome.code !== 0 || isLast) return outcome;
  }
  return { code: 0 };
}

/**
 * The environment of the task: its children find our Node and the system tools by PATH.
 *
 * @param {Toolchain} toolchain
 * @returns {NodeJS.ProcessEnv}
 */
function environment(toolchain) {
  const inherited = (process.env["PATH"] ?? "").split(path.delimiter);
  const directories = [path.dirname(toolchain.node), path.join(PROJECT, "node_modules/.bin"), ...inherited];
  return {
    ...process.env,
    PATH: [...new Set([...directories, ...TOOL_DIRECTORIES])].join(path.delimiter),
    DRAWBRIDGE_NODE: toolchain.node,
    DRAWBRIDGE_BUN: toolchain.bun,
  };
}

/**
 * Runs a script and passes signals on to it, so that a demo that is interrupted still cleans up.
 *
 * @param {string} node
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Outcome>}
 */
function runNode(node, args, env) {
  const child = spawn(node, args, { cwd: PROJECT, env, stdio: "inherit" });
  /** @param {NodeJS.Signals} signal */
  const passOn = (signal) => {
    // A terminal sends Ctrl-C to the whole process group: the child has it already, and twice means "at once".
    if (signal === "SIGINT" && process.stdin.isTTY) return;
    child.kill(signal);
  };
  /** @type {readonly NodeJS.Signals[]} */
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, passOn);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      for (const handled of signals) process.off(handled, passOn);
      resolve(signal === null ? { code: code ?? 1 } : { signal });
    });
  });
}

/**
 * Ends as the task did. A task that died of a signal is reported as such to whoever waits for us.
 *
 * @param {Outcome} outcome
 */
function end(outcome) {
  if ("signal" in outcome) process.kill(process.pid, outcome.signal);
  else process.exitCode = outcome.code;
}
