import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { SetupFailure } from "./failure.mjs";

const ESBUILD = "node_modules/esbuild/bin/esbuild";

/**
 * The options for ECMAScript modules for Node 24. Names stay unchanged, for the stack trace of a bug. The code is split,
 * so that what few calls need is read only by them. koffi looks for its native part by name.
 * @type {readonly string[]}
 */
const OPTIONS = [
  "--bundle",
  "--splitting",
  "--platform=node",
  "--format=esm",
  "--target=node24",
  "--minify-syntax",
  "--minify-whitespace",
  "--external:@koromix/*",
  "--log-level=error",
  // Libraries of the older kind of modules call require(), which ECMAScript modules do not have.
  '--banner:js=import{createRequire as requireFor}from"node:module";const require=requireFor(import.meta.url);',
];

/**
 * Bundles a program with its libraries.
 *
 * @param {string} project absolute path of the project
 * @param {readonly [entry: string, output: string]} program the main file, relative to the project, and the output file
 * @throws {SetupFailure} when it does not compile
 */
export function bundle(project, [entry, output]) {
  const naming = [`--outdir=${path.dirname(output)}`, `--entry-names=${path.basename(output, ".js")}`];
  const args = [ESBUILD, entry, ...OPTIONS, ...naming];
  const result = spawnSync(process.execPath, args, {
    cwd: project,
    stdio: ["ignore", "pipe", "pipe"],
    encoding: "utf8",
  });
  if (result.status === 0) return;
  const words = result.error?.message ?? (result.stderr + result.stdout).trim();
  throw new SetupFailure(`esbuild could not build ${entry}:\n${words}`);
}
