import { spawnSync } from "node:child_process";
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
