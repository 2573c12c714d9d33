import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { compile, compilerFor, engineObjects, link, run } from "./engine.mjs";
import { say } from "./failure.mjs";

/** The modules that the executable loads: at its start, for each call, and on its first use (cni/native/main.c, cni/call.ts). */
const MODULES = [
  "cni/native/globals.ts",
  "cni/main.ts",
  "cni/call.ts",
  "cni/adding.ts",
  "cni/deleting.ts",
  "cni/del/wiring_removal.ts",
  "cni/loopback.ts",
  "cni/registration.ts",
  "cni/pod_rules.ts",
  "cni/rare.ts",
];
const NATIVE = "cni/native";
/** The host of the engine, which becomes a part of the executable. */
export const HOST_FILES = ["calls.c", "main.c", "memory.c", "programs.c", "text.c"];
const OUTPUT = "dist/cni";
const PLUGIN = "drawbridge";
const BUILDERS = ["test/setup/engine.mjs", "test/setup/plugin_modules.mjs"];
const SOURCES = ["cni", "attachment", "ipam", "kernel", ...BUILDERS];

/** The plugin answers by the name it is called by; the container runtime calls `loopback` for every sandbox. */
const OTHER_NAMES = ["drawbridge-ipam", "loopback"];

/**
 * Makes dist/cni/drawbridge and its other names, unless they were made from exactly these sources.
 *
 * @param {string} project absolute path of the project
 * @param {string} node absolute path of Node 24, which removes the types
 * @throws {SetupFailure} when the sources do not compile
 */
export function buildPlugin(project, node) {
  const output = { project, directory: OUTPUT, files: [PLUGIN, ...OTHER_NAMES], sources: SOURCES };
  makeOnce(output, fileURLToPath(import.meta.url), (unfinished) => {
    makePluginDirectory(project, node, process.arch, unfinished);
    say(`built ${OUTPUT}/${PLUGIN}: ${(statSync(path.join(unfinished, PLUGIN)).size / 1e6).toFixed(1)} MB`);
  });
}

/**
 * A directory below dist/ that is made from sources.
 *
 * @typedef {object} Output
 * @property {string} project absolute path of the project
 * @property {string} directory relative to the project
 * @property {readonly string[]} files the files that it has once it is made
 * @property {readonly string[]} sources directories and files, relative to the project
 */

/**
 * Makes a directory as a whole, unless it was made from exactly these sources. A hash of them stands beside it, since a
 * node gets everything in it.
 *
 * @param {Output} output
 * @param {string} builder path of the module that makes it
 * @param {(unfinished: string) => void} make gets the directory under another name
 */
export function makeOnce({ project, directory, files, sources }, builder, make) {
  const made = path.join(project, directory);
  const stamp = path.join(path.dirname(made), `.${path.basename(made)}-inputs`);
  const inputs = hashOfInputs(project, sources, builder);
  const isMade = [stamp, ...files.map((file) => path.join(made, file))].every((file) => existsSync(file));
  if (isMade && readFileSync(stamp, "utf8") === inputs) return;

  say(`building ${directory}`);
  const unfinished = `${made}.${process.pid}.tmp`;
  try {
    make(unfinished);
    rmSync(made, { recursive: true, force: true });
    renameSync(unfinished, made);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  writeFileSync(stamp, inputs);
}

/**
 * Makes a directory with the plugin's executable under each of its names.
 *
 * @param {string} project
 * @param {string} node
 * @param {string} architecture
 * @param {string} directory
 */
export function makePluginDirectory(project, node, architecture, directory) {
  mkdirSync(directory, { recursive: true });
  makePlugin(project, node, architecture, path.join(directory, PLUGIN));
  for (const name of OTHER_NAMES) symlinkSync(PLUGIN, path.join(directory, name));
}

/**
 * Makes the plugin's executable: its modules as bytecode, the engine and the system calls. One in use is replaced as a
 * whole or not at all, and a running one keeps its file.
 *
 * @param {string} project
 * @param {string} node
 * @param {string} architecture as `process.arch`; the compiler for it has to be there
 * @param {string} executable
 */
export function makePlugin(project, node, architecture, executable) {
  const directory = `${executable}.${process.pid}.tmp`;
  const native = path.join(project, NATIVE);
  try {
    generateModules(project, node, directory);
    const target = compilerFor(architecture);
    const host = compile(
      target,
      HOST_FILES.map((name) => path.join(native, name)),
      directory,
      [native, directory],
    );
    const unfinished = path.join(directory, PLUGIN);
    link(target, [...host, ...engineObjects(architecture)], unfinished);
    renameSync(unfinished, executable);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * Writes what cni/native/main.c includes into a directory: modules.h, the bytecode of the plugin's modules, and lines.h.
 *
 * @param {string} project
 * @param {string} node absolute path of Node 24, which bundles the modules
 * @param {string} directory
 */
export function generateModules(project, node, directory) {
  mkdirSync(directory, { recursive: true });
  const script = path.join(project, "test/setup/plugin_modules.mjs");
  run(node, [script, directory, ...MODULES], project);
  const own = compilerFor(process.arch);
  const compiler = path.join(directory, "compile");
  const source = path.join(project, NATIVE, "compile.c");
  link(own, [...compile(own, [source], directory, []), ...engineObjects(process.arch)], compiler);
  run(compiler, [path.join(directory, "modules.h"), path.join(directory, "files")], project);
}

/**
 * Returns a hash over everything an output is made from. The lock file stands for the libraries. Documents in
 * the folders of the sources do not count.
 *
 * @param {string} project
 * @param {readonly string[]} sources directories and files, relative to the project
 * @param {string} builder path of the module that makes the output
 * @returns {string}
 */
export function hashOfInputs(project, sources, builder) {
  const files = sources.flatMap((source) => filesBelow(path.join(project, source)));
  files.push(path.join(project, "package-lock.json"), builder);
  const hash = createHash("sha256").update(process.arch);
  for (const file of files.sort()) {
    const content = readFileSync(file);
    hash.update(`${path.relative(project, file)}\0${content.length}\0`).update(content);
  }
  return `${hash.digest("hex")}\n`;
}

/**
 * @param {string} directory or a file, which is then the only result
 * @returns {string[]}
 */
function filesBelow(directory) {
  if (!existsSync(directory)) return [];
  if (!statSync(directory).isDirectory()) return [directory];
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) return filesBelow(file);
    return entry.isFile() && !entry.name.endsWith(".md") ? [file] : [];
  });
}
