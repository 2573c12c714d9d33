import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { makeOnce } from "./build.mjs";
import { OWN, bundle } from "./bundle.mjs";
import { installedPackage } from "./npm_package.mjs";
import { slimBundle } from "./slim_bundle.mjs";

const BUNDLE = "policyd.js";
const ENTRY = "policyd/main.ts";
/** The module of a thread, which is found beside the others by its name. */
const THREAD = "policyd/policies/names/answer_thread.ts";
const BUNDLERS = ["test/setup/bundle.mjs", "test/setup/slim_bundle.mjs", "test/setup/npm_package.mjs"];
const SOURCES = ["policyd", "cni", "attachment", "objects", "ipam", "kernel", "package.json", ...BUNDLERS];

/**
 * Makes dist/policyd, a directory that runs wherever it is copied to, unless it was made from exactly these sources. It
 * is split: the code that reads a kubeconfig is large, and read only if there is one.
 *
 * @param {string} project absolute path of the project
 * @throws {SetupFailure} when the sources do not compile
 */
export function buildDaemon(project) {
  const output = { project, directory: "dist/policyd", files: [BUNDLE], sources: SOURCES };
  makeOnce(output, fileURLToPath(import.meta.url), (unfinished) => makeDaemon(project, unfinished, OWN));
}

/**
 * Makes the daemon's directory.
 *
 * @param {string} project absolute path of the project
 * @param {string} directory
 * @param {import("./bundle.mjs").Target} target
 */
export function makeDaemon(project, directory, target) {
  bundle(project, [ENTRY, path.join(directory, BUNDLE)], target, [THREAD]);
  slimFiles(directory);
  addKoffi(project, directory, target);
  writePackageJson(directory);
}

/** Fixes the bundle's kind of module, which a package.json in a directory above would determine. @param {string} directory */
export function writePackageJson(directory) {
  writeFileSync(path.join(directory, "package.json"), `${JSON.stringify({ type: "module", private: true })}\n`);
}

/** @param {string} directory whose bundled files get smaller in memory */
function slimFiles(directory) {
  for (const name of readdirSync(directory)) {
    const file = path.join(directory, name);
    writeFileSync(file, slimBundle(readFileSync(file, "utf8")));
  }
}

/**
 * Puts koffi's native part into the bundle's directory, as the package that koffi looks for by name (its
 * src/static.js). Only the one for glibc: libc.so.6 is called.
 *
 * @param {string} project
 * @param {string} directory
 * @param {import("./bundle.mjs").Target} target
 */
export function addKoffi(project, directory, { architecture }) {
  const name = `@koromix/koffi-linux-${architecture}`;
  const source = installedPackage(project, name);
  const native = `linux_${architecture}/koffi.node`;
  const destination = path.join(directory, "node_modules", name);
  mkdirSync(path.join(destination, path.dirname(native)), { recursive: true });
  for (const file of ["package.json", "index.js", native])
    cpSync(path.join(source, file), path.join(destination, file));
}
