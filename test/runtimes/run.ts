import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { CACHE, goEnvironment, hasGo } from "../support/programs/go.ts";
import { kernelObstacle } from "../support/privilege.ts";
import { type Program, PROGRAMS } from "./programs.ts";

/**
 * `npm run test:runtimes`: the CNI libraries of container runtimes, built here as Go modules, attach and detach pods
 * with the files that policyd installs; the machine's podman does the same with containers. With `--record` their calls
 * are written to test/fixtures/runtimes, from which `npm test` repeats them without Go.
 */
const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const HERE = path.join(PROJECT, "test/runtimes");
const RUNTIMES = path.join(CACHE, "runtimes");
const ENVIRONMENT = goEnvironment({ GOFLAGS: "-buildvcs=false -mod=readonly -trimpath" });
const FILES = [path.join(HERE, "checks.ts"), path.join(PROJECT, "test/integration/other_programs/podman.test.ts")];
const CANNOT_RUN = 2;

function say(text: string): void {
  process.stderr.write(`test:runtimes: ${text}\n`);
}

/** Builds a program. @returns the exit code of go */
function build({ name, folder, module, tags }: Program): number {
  const options = ["-p=1", "-ldflags=-s -w", `-modfile=${module}`, ...(tags === undefined ? [] : [`-tags=${tags}`])];
  const args = ["build", ...options, "-o", path.join(RUNTIMES, name), "."];
  say(`in test/runtimes/${folder}: go ${args.join(" ")}`);
  const { status, error } = spawnSync("nice", ["-n", "19", "go", ...args], {
    cwd: path.join(HERE, folder),
    env: ENVIRONMENT,
    stdio: "inherit",
  });
  if (error !== undefined) say(error.message);
  return status ?? 1;
}

function main(args: readonly string[]): number {
  const obstacle = kernelObstacle();
  if (obstacle !== undefined) {
    say(`nothing was tested: ${obstacle}`);
    return CANNOT_RUN;
  }
  if (!hasGo()) {
    say("nothing was tested: there is no Go on this machine, with which the libraries of the runtimes are built");
    return CANNOT_RUN;
  }
  mkdirSync(RUNTIMES, { recursive: true });
  for (const program of PROGRAMS) {
    const code = build(program);
    if (code !== 0) return code;
  }
  const isRecorded = args.includes("--record");
  const mocha = path.join(PROJECT, "node_modules/mocha/bin/mocha.js");
  const rest = args.filter((arg) => arg !== "--record");
  const { status } = spawnSync(process.execPath, [mocha, ...FILES.filter((file) => existsSync(file)), ...rest], {
    cwd: PROJECT,
    env: { ...process.env, DRAWBRIDGE_RUNTIMES: RUNTIMES, ...(isRecorded ? { DRAWBRIDGE_RECORD: "1" } : {}) },
    stdio: "inherit",
  });
  return status ?? 1;
}

process.exitCode = main(process.argv.slice(2));
