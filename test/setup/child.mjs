import { spawn, spawnSync } from "node:child_process";
import { SetupFailure } from "./failure.mjs";

/** @typedef {{ code: number } | { signal: NodeJS.Signals }} Outcome */

/**
 * Runs a script and passes signals on to it, so that an interrupted demo still cleans up.
 *
 * @param {string} node
 * @param {readonly string[]} args
 * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<Outcome>}
 */
export function runNode(node, args, { cwd, env }) {
  const child = spawn(node, args, { cwd, env, stdio: "inherit" });
  /** @param {NodeJS.Signals} signal */
  const passOn = (signal) => {
    // A terminal sends Ctrl-C to the whole process group: the child has it already, and a second one means "at once".
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
 * Ends this process as a child ended: if a signal killed the child, the same signal kills this process.
 *
 * @param {Outcome} outcome
 */
export function endAs(outcome) {
  if ("signal" in outcome) process.kill(process.pid, outcome.signal);
  else process.exitCode = outcome.code;
}

/**
 * Runs a program to its end and returns its standard output.
 *
 * @param {string} program
 * @param {readonly string[]} args
 * @param {string} failure the words for a program that fails; its own follow
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, lines?: number }} [options] lines: the most of its words
 * @returns {string}
 * @throws {SetupFailure}
 */
export function outputOf(program, args, failure, { cwd, env, lines = Infinity } = {}) {
  const maxBuffer = 64 * 1024 * 1024;
  const result = spawnSync(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8", maxBuffer });
  if (result.status === 0) return result.stdout;
  const words = result.error?.message ?? (result.stderr.trim() || result.stdout.trim());
  throw new SetupFailure(`${failure}:\n${words.split("\n").slice(-lines).join("\n")}`);
}
