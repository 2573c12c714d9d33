import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { DRAWBRIDGE } from "../../lab/cni.ts";

const EMIT = fileURLToPath(new URL("../../../cni/shim/emit.ts", import.meta.url));
/** A run directory that cannot exist: a shim finds no server in it, starts none and executes the plugin. */
const NO_SERVER = "/dev/null/drawbridge";

/**
 * Makes a shim as the build does, for another run directory than the node's.
 *
 * @throws Error with the emitter's message
 */
export function emitShim(output: string, runDirectory: string): void {
  const { status, stderr, error } = spawnSync(process.execPath, [EMIT, output, "--run-directory", runDirectory], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${EMIT}: ${error?.message ?? stderr}`);
}

/**
 * Makes a directory with the files that an installation copies: the built plugin, and a shim that does not use the
 * machine's own run directory.
 *
 * @param runDirectory without it the shim never finds a server, and starts none
 * @returns the directory
 */
export function pluginSource(directory: string, runDirectory: string = NO_SERVER): string {
  mkdirSync(directory, { recursive: true });
  symlinkSync(DRAWBRIDGE, `${directory}/drawbridge-plugin`);
  emitShim(`${directory}/drawbridge`, runDirectory);
  return directory;
}
