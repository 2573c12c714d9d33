import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
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
import { SetupFailure, say } from "./failure.mjs";

const ENTRY = "cni/main.ts";
const SHIM_ENTRY = "cni/shim/emit.ts";
const OUTPUT = "dist/cni";
const PLUGIN = "drawbridge-plugin";
const SHIM = "drawbridge";
/** The directory of the plugin server on every node (cli/node/place.ts). */
const RUN_DIRECTORY = "/run/drawbridge-plugin";
/** Outside the output, since a node gets everything in dist/cni. */
const STAMP = "dist/.cni-inputs";
const SOURCES = ["cni", "ipam", "kernel"];

/** The plugin answers by the name the shim is called by; the container runtime calls `loopback` for every sandbox. */
const OTHER_NAMES = ["drawbridge-ipam", "loopback"];

/**
 * The options of Bun. The bundle is split, so that a call reads only what it needs: a module that is required where it
 * is used (`node_rules.ts`) is a separate chunk. As an ES module, the bundle creates functions when they are called,
 * not all at once.
 *
 * The JIT threshold is never reached: a call runs for some milliseconds, and the compiler's threads would cost more
 * than they gain (docs/performance.md). No .env file or bunfig.toml is read at run time: the plugin runs as root in
 * directories it does not choose.
 * @type {readonly string[]}
 */
const OPTIONS = [
  "--compile",
  "--minify",
  "--bytecode",
  "--format=esm",
  "--splitting",
  "--compile-jit-policy=100000",
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
  "--target=bun",
];

/**
 * Makes dist/cni/drawbridge-plugin, the shim dist/cni/drawbridge in the same directory, and the shim's other names,
 * unless they were made from exactly these sources.
 *
 * @param {string} project absolute path of the project
 * @param {string} bun absolute path of Bun
 * @throws {SetupFailure} when the sources do not compile
 */
export function buildPlugin(project, bun) {
  const missing = [ENTRY, SHIM_ENTRY].find((entry) => !existsSync(path.join(project, entry)));
  if (missing !== undefined) throw new SetupFailure(`${missing} is missing, so there is no plugin to build`);
  const output = path.join(project, OUTPUT);
  const plugin = path.join(output, PLUGIN);
  const shim = path.join(output, SHIM);
  const stamp = path.join(project, STAMP);
  const inputs = hashOfInputs(project, SOURCES, fileURLToPath(import.meta.url));
  const links = OTHER_NAMES.map((name) => path.join(output, name));
  const isMade = [plugin, shim, ...links].every((file) => existsSync(file));
  if (isMade && existsSync(stamp) && readFileSync(stamp, "utf8") === inputs) return;

  say(`building ${OUTPUT}/${PLUGIN} and ${SHIM}`);
  mkdirSync(output, { recursive: true });
  // The plugin comes first, as in an installation: the shim executes the plugin in its directory.
  make(project, plugin, ENTRY, bun, (unfinished) => ["build", ...OPTIONS, `--outfile=${unfinished}`, ENTRY]);
  make(project, shim, SHIM_ENTRY, bun, (unfinished) => [SHIM_ENTRY, unfinished, "--run-directory", RUN_DIRECTORY]);
  for (const link of links) replaceLink(link);
  writeFileSync(stamp, inputs);
  say(
    `built ${OUTPUT}/${PLUGIN}: ${(statSync(plugin).size / 1e6).toFixed(1)} MB, ${SHIM}: ${statSync(shim).size} bytes`,
  );
}

/**
 * Makes an executable with Bun in another directory, and then moves it: one in use is replaced as a whole or not at
 * all, and a running one keeps its file. It is made under its final name, which becomes a part of the plugin, so that
 * the same sources give the same bytes.
 *
 * @param {string} project
 * @param {string} executable
 * @param {string} entry the main file
 * @param {string} bun
 * @param {(unfinished: string) => readonly string[]} argsFor the arguments of Bun that make it as this file
 */
function make(project, executable, entry, bun, argsFor) {
  const directory = `${path.dirname(executable)}.${process.pid}.tmp`;
  const unfinished = path.join(directory, path.basename(executable));
  try {
    mkdirSync(directory, { recursive: true });
    const result = spawnSync(bun, argsFor(unfinished), {
      cwd: project,
      stdio: ["ignore", "pipe", "pipe"],
      encoding: "utf8",
    });
    if (result.status !== 0) {
      const words = result.error?.message ?? (result.stderr + result.stdout).trim();
      throw new SetupFailure(`Bun could not build ${entry}:\n${words}`);
    }
    renameSync(unfinished, executable);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {string} link */
function replaceLink(link) {
  if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) rmSync(link);
  symlinkSync(SHIM, link);
}

/**
 * Returns a hash over everything an output is made from. The lock file stands for Bun and the libraries. Documents in
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
