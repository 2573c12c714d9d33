import { spawnSync } from "node:child_process";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";

/**
 * The options for ECMAScript modules for Node 24. Names stay unchanged, for the stack trace of a bug.
 * @type {readonly string[]}
 */
const OPTIONS = ["--target=node", "--format=esm", "--minify-syntax", "--minify-whitespace"];

/**
 * Bundles a program with its libraries.
 *
 * @param {string} project absolute path of the project
 * @param {string} bun absolute path of Bun
 * @param {readonly [entry: string, output: string]} program the main file, relative to the project, and the output file
 * @param {...string} options further options of Bun
 * @throws {SetupFailure} when it does not compile
 */
export function bundle(project, bun, [entry, output], ...options) {
  const naming = [`--outdir=${path.dirname(output)}`, `--entry-naming=${path.basename(output)}`];
  const args = ["build", ...OPTIONS, ...options, ...naming, entry];
  const result = spawnSync(bun, args, { cwd: project, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
  if (result.status === 0) return;
  const words = result.error?.message ?? (result.stderr + result.stdout).trim();
  throw new SetupFailure(`Bun could not build ${entry}:\n${words}`);
}
