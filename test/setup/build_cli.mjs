import { chmodSync, symlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { makeOnce } from "./build.mjs";
import { addKoffi, writePackageJson } from "./build_daemon.mjs";
import { OWN, bundle } from "./bundle.mjs";

const PROGRAM = "drawbridge.js";
/** The names by which kubectl finds the program as `kubectl drawbridge`, and asks it to complete command lines. */
const PLUGIN_NAMES = ["kubectl-drawbridge", "kubectl_complete-drawbridge"];
const BUNDLERS = ["test/setup/bundle.mjs", "test/setup/build_daemon.mjs", "test/setup/npm_package.mjs"];
const SOURCES = ["cli", "policyd", "cni", "attachment", "objects", "ipam", "kernel", "package.json", ...BUNDLERS];

/**
 * Makes dist/cli, a directory that runs wherever it is copied to, unless it was made from exactly these sources. It is
 * split: the code of a command is read when the command is called.
 *
 * @param {string} project absolute path of the project
 * @throws {import("./failure.mjs").SetupFailure} when the sources do not compile
 */
export function buildCli(project) {
  const output = { project, directory: "dist/cli", files: [PROGRAM], sources: SOURCES };
  makeOnce(output, fileURLToPath(import.meta.url), (unfinished) => makeCli(project, unfinished, OWN));
}

/**
 * Makes the command line's directory.
 *
 * @param {string} project absolute path of the project
 * @param {string} directory
 * @param {import("./bundle.mjs").Target} target
 */
export function makeCli(project, directory, target) {
  bundle(project, ["cli/main.ts", path.join(directory, PROGRAM)], target);
  // Only commands about the node load it.
  addKoffi(project, directory, target);
  chmodSync(path.join(directory, PROGRAM), 0o755);
  for (const name of PLUGIN_NAMES) symlinkSync(PROGRAM, path.join(directory, name));
  writePackageJson(directory);
}
