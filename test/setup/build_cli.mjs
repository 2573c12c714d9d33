import { chmodSync, existsSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { hashOfInputs } from "./build.mjs";
import { addKoffi } from "./build_daemon.mjs";
import { bundle } from "./bundle.mjs";
import { say } from "./failure.mjs";

const OUTPUT = "dist/cli";
const PROGRAM = "drawbridge.js";
/** The names by which kubectl finds the program as `kubectl drawbridge`, and asks it to complete command lines. */
const PLUGIN_NAMES = ["kubectl-drawbridge", "kubectl_complete-drawbridge"];
const STAMP = "dist/.cli-inputs";
const BUNDLERS = ["test/setup/bundle.mjs", "test/setup/build_daemon.mjs"];
const SOURCES = ["cli", "policyd", "cni", "attachment", "objects", "ipam", "kernel", "package.json", ...BUNDLERS];

/**
 * Makes dist/cli, a directory that runs wherever it is copied to, unless it was made from exactly these sources. It is
 * split: the code of a command is read when the command is called.
 *
 * @param {string} project absolute path of the project
 * @throws {import("./failure.mjs").SetupFailure} when the sources do not compile
 */
export function buildCli(project) {
  const output = path.join(project, OUTPUT);
  const stamp = path.join(project, STAMP);
  const inputs = hashOfInputs(project, SOURCES, fileURLToPath(import.meta.url));
  const isMade = existsSync(path.join(output, PROGRAM)) && existsSync(stamp);
  if (isMade && readFileSync(stamp, "utf8") === inputs) return;

  say(`building ${OUTPUT}/${PROGRAM}`);
  const unfinished = `${output}.${process.pid}.tmp`;
  try {
    bundle(project, ["cli/main.ts", path.join(unfinished, PROGRAM)]);
    // Only commands about the node load it.
    addKoffi(project, unfinished);
    chmodSync(path.join(unfinished, PROGRAM), 0o755);
    for (const name of PLUGIN_NAMES) symlinkSync(PROGRAM, path.join(unfinished, name));
    // Without it, a package.json in a directory above would determine the bundle's kind of module.
    writeFileSync(path.join(unfinished, "package.json"), `${JSON.stringify({ type: "module", private: true })}\n`);
    rmSync(output, { recursive: true, force: true });
    renameSync(unfinished, output);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  writeFileSync(stamp, inputs);
}
