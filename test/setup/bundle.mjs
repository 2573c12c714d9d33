import path from "node:path";
import process from "node:process";
import { outputOf } from "./child.mjs";

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
 * @throws {import("./failure.mjs").SetupFailure} when it does not compile
 */
export function bundle(project, [entry, output]) {
  const naming = [`--outdir=${path.dirname(output)}`, `--entry-names=${path.basename(output, ".js")}`];
  const args = [ESBUILD, entry, ...OPTIONS, ...naming];
  outputOf(process.execPath, args, `esbuild could not build ${entry}`, { cwd: project });
}
