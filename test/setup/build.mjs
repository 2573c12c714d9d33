import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { SetupFailure, say } from "./failure.mjs";

const ENTRY = "cni/main.ts";
const OUTPUT = "dist/cni";
/** Beside the output and not in it: a node gets everything in dist/cni. */
const STAMP = "dist/.cni-inputs";
const SOURCES = ["cni", "ipam", "kernel"];

/** The plugin answers by the name it is called by; the container runtime calls `loopback` for every sandbox. */
const OTHER_NAMES = ["drawbridge-ipam", "loopback"];

/**
 * Split, so that what a call does not need stays unread: a module that is required where it is used (`node_rules.ts`) is
 * a chunk of its own. As an ES module the bundle makes its functions when they are called, not all at once.
 *
 * The JIT threshold is out of reach: a call runs for some milliseconds, and the compiler's threads would cost it more
 * than they give (docs/performance.md). No .env file or bunfig.toml is read at run time: the plugin runs as root in directories it does not choose.
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
 * Makes dist/cni/drawbridge and its other names, unless they were made from exactly these sources.
 *
 * @param {string} project absolute path of the project
 * @param {string} bun absolute path of Bun
 * @throws {SetupFailure} when the sources do not compile
 */
export function buildPlugin(project, bun) {
  if (!existsSync(path.join(project, ENTRY)))
    throw new SetupFailure(`${ENTRY} is missing, so there is no plugin to build`);
  const output = path.join(project, OUTPUT);
  const executable = path.join(output, "drawbridge");
  const stamp = path.join(project, STAMP);
  const inputs = hashOfInputs(project, SOURCES, fileURLToPath(import.meta.url));
  const links = OTHER_NAMES.map((name) => path.join(output, name));
  const isMade = [executable, ...links].every((file) => existsSync(file));
  if (isMade && existsSync(stamp) && readFileSync(stamp, "utf8") === inputs) return;

  say(`building ${OUTPUT}/drawbridge`);
  mkdirSync(output, { recursive: true });
  compile(project, bun, executable);
  for (const link of links) replaceLink(link);
  writeFileSync(stamp, inputs);
  say(`built ${OUTPUT}/drawbridge: ${(statSync(executable).size / 1e6).toFixed(1)} MB`);
}

/**
 * Compiles in another directory first: a plugin in use is replaced whole or not at all, and a running one keeps its file. Under
 * its own name, which becomes a part of it: so the same sources give the same bytes.
 *
 * @param {string} project
 * @param {string} bun
 * @param {string} executable
 */
function compile(project, bun, executable) {
  const directory = `${path.dirname(executable)}.${process.pid}.tmp`;
  const unfinished = path.join(directory, path.basename(executable));
  const args = ["build", ...OPTIONS, `--outfile=${unfinished}`, ENTRY];
  try {
    mkdirSync(directory, { recursive: true });
    const result = spawnSync(bun, args, { cwd: project, stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
    if (result.status !== 0) {
      const words = result.error?.message ?? (result.stderr + result.stdout).trim();
      throw new SetupFailure(`Bun could not build ${ENTRY}:\n${words}`);
    }
    renameSync(unfinished, executable);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** @param {string} link */
function replaceLink(link) {
  if (lstatSync(link, { throwIfNoEntry: false }) !== undefined) rmSync(link);
  symlinkSync("drawbridge", link);
}

/**
 * A hash over everything an output is made from. The lock file stands for Bun and the libraries.
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
 * @param {string} directory or a file, which is then the only one
 * @returns {string[]}
 */
function filesBelow(directory) {
  if (!existsSync(directory)) return [];
  if (!statSync(directory).isDirectory()) return [directory];
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(file) : entry.isFile() ? [file] : [];
  });
}
