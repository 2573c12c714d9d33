import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { SetupFailure, say } from "./failure.mjs";
import { OLDEST_NODE, findToolchain, isAtLeast } from "./toolchain.mjs";

/** @typedef {import("./toolchain.mjs").Toolchain} Toolchain */

/** Inside node_modules: whoever removes node_modules also removes this mark of the installation. */
const STAMP = "node_modules/.drawbridge-installed";

/** Without a network, npm's default retries, minutes per package, look like a hang. */
const FEW_RETRIES = ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];

/** A second link to the Node that runs npm, outside node_modules; it has to be called `node`. */
const HELD_NODE = "dist/.setup/node";

/**
 * Installs the npm packages of the lock file if they are missing, and returns the toolchain among them.
 *
 * Install scripts stay off: none of our dependencies needs one, and none of them should run as root.
 *
 * @param {string} project absolute path of the project
 * @returns {Toolchain}
 * @throws {SetupFailure} when npm fails or what it installed does not run
 */
export function ensurePackages(project) {
  const stamp = path.join(project, STAMP);
  const lockFile = readFileSync(path.join(project, "package-lock.json"));
  const wanted = `${createHash("sha256").update(lockFile).digest("hex")} ${process.arch}\n`;
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return findToolchain(project);

  rmSync(stamp, { force: true });
  install(project);
  const toolchain = findToolchain(project);
  for (const program of Object.values(toolchain)) checkThatItRuns(program);
  writeFileSync(stamp, wanted);
  return toolchain;
}

/**
 * Installs in one pass under a new Node, in two under an old one: npm silently omits every optional package that
 * does not support the Node it runs on, such as the linter's native parts. So an old Node fetches Node 24 first, and
 * that one installs the rest.
 *
 * @param {string} project
 */
function install(project) {
  const held = path.join(project, HELD_NODE);
  let node = process.execPath;
  if (!isAtLeast(process.versions.node, OLDEST_NODE)) {
    say(`this is Node ${process.versions.node}: installing Node 24 from npm first (200 MB on disk)`);
    npmCi(project, node, ["--omit=dev"]);
    node = findToolchain(project).node;
  }
  say("installing the npm packages of package-lock.json (400 MB on disk)");
  try {
    if (node.startsWith(path.join(project, "node_modules/"))) {
      // npm ci removes node_modules first, and with it the Node it runs on.
      mkdirSync(path.dirname(held), { recursive: true });
      rmSync(held, { force: true });
      linkSync(node, held);
      node = held;
    }
    npmCi(project, node, ["--include=dev"]);
  } finally {
    rmSync(path.dirname(held), { force: true, recursive: true });
  }
}

/**
 * @param {string} project
 * @param {string} node the Node to run npm on
 * @param {readonly string[]} options
 */
function npmCi(project, node, options) {
  const npm = npmCommand(node);
  const args = [...npm.args, "ci", "--ignore-scripts", "--include=optional", "--loglevel=error", ...FEW_RETRIES];
  const PATH = [path.dirname(node), process.env["PATH"]].join(path.delimiter);
  const result = spawnSync(npm.command, [...args, ...options], {
    cwd: project,
    env: { ...process.env, PATH },
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
  });
  if (result.error !== undefined) {
    throw new SetupFailure(
      `npm could not be started (${result.error.message}). Install npm beside Node and try again.`,
    );
  }
  if (result.status === 0) return;
  const words = result.stderr.trim().split("\n").slice(0, 8).join("\n  ");
  throw new SetupFailure(
    `npm ci failed (${result.signal ?? `exit code ${result.status}`}):\n  ${words}\n` +
      "The packages come from the registry npm is configured for: check the network and `npm config get registry`, " +
      "then try again.",
  );
}

/**
 * Returns the command that starts the npm which started us, or else the one that belongs to the running Node.
 *
 * @param {string} node the Node that npm shall use; it must be first in PATH, where npm's launcher looks
 * @returns {{ command: string, args: readonly string[] }}
 */
export function npmCommand(node) {
  // npm gives its own path to the scripts it runs.
  const script = process.env["npm_execpath"];
  if (script !== undefined && path.basename(script) === "npm-cli.js") return { command: node, args: [script] };
  const beside = path.join(path.dirname(process.execPath), "npm");
  return { command: existsSync(beside) ? beside : "npm", args: [] };
}

/** @param {string} program */
function checkThatItRuns(program) {
  const { status, signal, error } = spawnSync(program, ["--version"], { stdio: "ignore" });
  if (status === 0) return;
  throw new SetupFailure(
    `${program} was installed but does not run here (${signal ?? error?.message ?? `exit code ${status}`}). It needs ` +
      "glibc: use Debian 12 or another glibc distribution.",
  );
}
