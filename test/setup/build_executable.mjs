import { chmodSync, cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { bundleScript } from "./bundle.mjs";
import { outputOf } from "./child.mjs";
import { installedPackage, npmPackage } from "./npm_package.mjs";

const ENTRY = "cli/main.ts";
/** Stands for koffi in the executable. */
export const KOFFI = "./test/setup/executable_koffi.mjs";
const INJECTOR = "test/setup/inject.mjs";

/** Writes into executables of every processor, which Node 24 itself cannot; Node's documentation names it. */
const POSTJECT = {
  name: "postject",
  version: "1.0.0-alpha.6",
  integrity: "sha512-b9Eb8h2eVqNE8edvKdwqkrY6O7kAwmI8kcnBv1NScolYJbo59XUF0noFq+lxbC1yN20bmC0WBEbDC5H/7ASb0A==",
};

/**
 * Makes the command line as one executable that needs no Node: Node's program with our script and koffi's native part
 * in it (Node's documentation, "Single executable applications"). The same sources give the same bytes.
 *
 * @param {string} project absolute path of the project
 * @param {import("./bundle.mjs").Target} target
 * @param {string} executable
 * @throws {import("./failure.mjs").SetupFailure} when a part cannot be fetched or does not compile
 */
export function makeExecutable(project, target, executable) {
  const { architecture } = target;
  const directory = mkdtempSync(`${executable}.`);
  const inDirectory = (/** @type {string} */ name) => path.join(directory, name);
  try {
    bundleScript(project, [ENTRY, inDirectory("drawbridge.js")], target, KOFFI);
    const koffi = installedPackage(project, `@koromix/koffi-linux-${architecture}`);
    cpSync(path.join(koffi, `linux_${architecture}/koffi.node`), inDirectory("koffi.node"));
    // Code that V8 has compiled, and its snapshot, would be for this machine's processor.
    const contents = { main: "drawbridge.js", output: "blob", assets: { "koffi.node": "koffi.node" } };
    const options = { disableExperimentalSEAWarning: true, useCodeCache: false, useSnapshot: false };
    writeFileSync(inDirectory("contents.json"), JSON.stringify({ ...contents, ...options }));
    const failure = "Node could not put the command line together";
    outputOf(process.execPath, ["--experimental-sea-config", "contents.json"], failure, { cwd: directory });
    const program = inDirectory("drawbridge");
    cpSync(path.join(installedPackage(project, `node-linux-${architecture}`), "bin/node"), program);
    chmodSync(program, 0o755);
    const injector = [path.join(project, INJECTOR), npmPackage(POSTJECT), program, inDirectory("blob")];
    outputOf(process.execPath, injector, "postject could not write the executable", { cwd: directory, lines: 5 });
    renameSync(program, executable);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
