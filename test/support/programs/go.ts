import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";

/** The project's directory in the user's cache, which keeps foreign programs from one run to the next. */
export const CACHE: string = path.join(
  process.env["XDG_CACHE_HOME"] || path.join(os.homedir(), ".cache"),
  "drawbridge",
);

/** The directories of `go`, for when no shell has set PATH. */
const GO_DIRECTORIES = ["/usr/local/go/bin", "/usr/lib/go/bin"];

/** Returns the environment in which Go builds foreign programs, without C. @param changes further variables */
export function goEnvironment(changes: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const searchPath = [process.env["PATH"], ...GO_DIRECTORIES].join(":");
  return { ...process.env, PATH: searchPath, CGO_ENABLED: "0", GOTOOLCHAIN: "auto", ...changes };
}

/** Whether this machine has a Go toolchain. */
export function hasGo(): boolean {
  return spawnSync("go", ["version"], { env: goEnvironment() }).status === 0;
}

/**
 * Builds programs by `go install` into a directory.
 *
 * @param packages with their versions: `helm.sh/helm/v4/cmd/helm@v4.3.1`
 * @returns why that failed; undefined when the programs are there
 */
export function goInstall(directory: string, packages: readonly string[]): string | undefined {
  mkdirSync(directory, { recursive: true });
  const args = ["install", "-trimpath", "-ldflags=-s -w", ...packages];
  const { status, stderr } = spawnSync("go", args, { env: goEnvironment({ GOBIN: directory }), encoding: "utf8" });
  return status === 0 ? undefined : lastWords(stderr);
}

/** Returns the last three lines of a program's error output as one line. */
export function lastWords(stderr: string): string {
  return stderr.trim().split("\n").slice(-3).join("; ");
}
