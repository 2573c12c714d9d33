import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { loadBridgeNetfilter } from "./bridge_netfilter.mjs";
import { buildPlugin } from "./build.mjs";
import { buildCli } from "./build_cli.mjs";
import { buildDaemon } from "./build_daemon.mjs";
import { endAs, runNode } from "./child.mjs";
import { COMPILER, TOOL_DIRECTORIES, ensureTools } from "./debian.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { ensurePackages } from "./packages.mjs";
import { TASKS } from "./tasks.mjs";

/** @typedef {import("./toolchain.mjs").Toolchain} Toolchain */
/** @typedef {import("./child.mjs").Outcome} Outcome */

const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

try {
  const [name = "", ...args] = process.argv.slice(2);
  endAs(await runTask(name, args));
} catch (error) {
  const words = foreseen(error);
  if (words === undefined) throw error;
  say(words);
  process.exitCode = 1;
}

/**
 * Returns the message for a failure that is not a bug of the set-up; undefined for a bug, which needs its stack trace.
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
 * Sets up everything that a task needs and runs it.
 *
 * @param {string} name
 * @param {readonly string[]} args for the task's last command
 * @returns {Promise<Outcome>} the exit of the task
 * @throws {SetupFailure} when it could not be started
 */
async function runTask(name, args) {
  const task = TASKS.get(name);
  if (task === undefined) {
    throw new SetupFailure(`no task "${name}"; give one of ${[...TASKS.keys()].join(", ")}`);
  }
  const toolchain = ensurePackages(PROJECT);
  ensureTools(task.builds ? [...task.tools, ...COMPILER] : task.tools);
  if (task.usesBridges) loadBridgeNetfilter();
  if (task.builds) {
    buildPlugin(PROJECT, toolchain.node);
    buildDaemon(PROJECT);
    buildCli(PROJECT);
  }
  const env = { ...environment(toolchain), ...task.env };
  for (const [index, { script, args: fixed }] of task.commands.entries()) {
    const isLast = index === task.commands.length - 1;
    if (!existsSync(path.join(PROJECT, script))) throw new SetupFailure(`${script} does not exist in this tree yet`);
    const outcome = await runNode(toolchain.node, [script, ...fixed, ...(isLast ? args : [])], { cwd: PROJECT, env });
    if (!("code" in outcome) || outcome.code !== 0 || isLast) return outcome;
  }
  return { code: 0 };
}

/**
 * Returns the environment of the task, in which its children find our Node and the system tools by PATH.
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
  };
}
