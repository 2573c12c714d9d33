import path from "node:path";
import process from "node:process";
import { outputOf } from "./child.mjs";

/**
 * The machines and the release that a program is made for.
 *
 * @typedef {object} Target
 * @property {string} architecture as `process.arch`
 * @property {string} [build] the commit and date of a release (policyd/version.ts)
 */

/** This machine, and no release. @type {Target} */
export const OWN = { architecture: process.arch };

const ESBUILD = "node_modules/esbuild/bin/esbuild";

/** Names stay unchanged, for the stack trace of a bug. */
const OPTIONS = [
  "--bundle",
  "--platform=node",
  "--target=node24",
  "--minify-syntax",
  "--minify-whitespace",
  "--log-level=error",
];

/**
 * The options for ECMAScript modules. The code is split, so that what few calls need is read only by them. koffi looks
 * for its native part by name.
 */
const SPLIT = [
  "--splitting",
  "--format=esm",
  "--external:@koromix/*",
  // Libraries of the older kind of modules call require(), which ECMAScript modules do not have.
  '--banner:js=import{createRequire as requireFor}from"node:module";const require=requireFor(import.meta.url);',
];

/**
 * Bundles a program with its libraries as modules in a directory.
 *
 * @param {string} project absolute path of the project
 * @param {readonly [entry: string, output: string]} program the main file, relative to the project, and the output file
 * @param {Target} target
 * @param {readonly string[]} [threads] modules of its threads, which keep their names
 * @throws {import("./failure.mjs").SetupFailure} when it does not compile
 */
export function bundle(project, [entry, output], target, threads = []) {
  const named = threads.map((thread) => `${path.basename(thread, ".ts")}=${thread}`);
  const entries = [`${path.basename(output, ".js")}=${entry}`, ...named];
  esbuild(project, [...entries, ...SPLIT, `--outdir=${path.dirname(output)}`], target);
}

/**
 * Bundles a program with its libraries as one script, as an executable contains it.
 *
 * @param {string} project absolute path of the project
 * @param {readonly [entry: string, output: string]} program as for {@link bundle}
 * @param {Target} target
 * @param {string} koffi the module that stands for koffi
 * @throws {import("./failure.mjs").SetupFailure} when it does not compile
 */
export function bundleScript(project, [entry, output], target, koffi) {
  esbuild(project, [entry, "--format=cjs", `--alias:koffi=${koffi}`, `--outfile=${output}`], target);
}

/**
 * @param {string} project
 * @param {readonly string[]} args
 * @param {Target} target
 */
function esbuild(project, args, { build }) {
  const defined = build === undefined ? [] : [`--define:DRAWBRIDGE_BUILD=${JSON.stringify(build)}`];
  const failure = `esbuild could not build ${args[0]}`;
  outputOf(process.execPath, [ESBUILD, ...args, ...OPTIONS, ...defined], failure, { cwd: project });
}
