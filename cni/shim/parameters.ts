import { DrawbridgeError } from "../../kernel/error.ts";
import { KEPT_ANSWER_FILE, LOCK_FILE, SOCKET_FILE } from "../server/protocol.ts";
import type { Machine } from "./system_call.ts";

/** The parameters by which shims differ. */
export interface ShimParameters {
  readonly machine: Machine;
  /** The directory of the plugin server's lock and socket; an absolute path. */
  readonly runDirectory: string;
  /** The executable in the shim's directory that is the plugin, and its server. */
  readonly pluginName: string;
  /** The whole environment of a server that the shim starts: `NAME=VALUE` each. */
  readonly serverEnvironment: readonly string[];
}

/**
 * The environment of Bun in the server. Its helper threads for compilation and garbage collection would be created in
 * the main thread's current network namespace, a pod's, and keep that alive after the pod's end. Of its compilers only
 * the first, fast one is used: the gains of the others take many hundreds of calls to pay back, and cost 10 MB
 * (docs/performance.md).
 */
export const SERVER_ENVIRONMENT: readonly string[] = [
  "BUN_JSC_useConcurrentJIT=0",
  "BUN_JSC_useConcurrentGC=0",
  "BUN_JSC_numberOfGCMarkers=1",
  "BUN_JSC_useDFGJIT=0",
];

/** The size of sockaddr_un's sun_path, with the NUL: unix(7). */
const SUN_PATH = 108;
/** NAME_MAX: limits.h. */
const LONGEST_NAME = 255;

/** The paths that a shim uses. */
export interface ShimPaths {
  readonly parent: string;
  readonly runDirectory: string;
  readonly lock: string;
  readonly socket: string;
  readonly status: string;
}

/**
 * Returns the paths for these parameters.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION for a parameter that no shim can have
 */
export function shimPaths({ runDirectory, pluginName, serverEnvironment }: ShimParameters): ShimPaths {
  const isDirectory = runDirectory.startsWith("/") && runDirectory !== "/" && !runDirectory.endsWith("/");
  if (!isDirectory || runDirectory.includes("\0"))
    throw invalid("run directory", runDirectory, 'an absolute path without a "/" at its end');
  const socket = `${runDirectory}/${SOCKET_FILE}`;
  if (new TextEncoder().encode(socket).length >= SUN_PATH)
    throw invalid(
      "run directory",
      runDirectory,
      `a path that is shorter than ${SUN_PATH - SOCKET_FILE.length - 1} bytes`,
    );
  const nameLength = new TextEncoder().encode(pluginName).length;
  if (nameLength === 0 || nameLength > LONGEST_NAME || /[/\0]/.test(pluginName))
    throw invalid("plugin name", pluginName, "the name of a file beside the shim");
  for (const entry of serverEnvironment)
    if (!/^[^=\0]+=[^\0]*$/.test(entry)) throw invalid("server environment", entry, "NAME=VALUE");
  const parent = runDirectory.slice(0, runDirectory.lastIndexOf("/")) || "/";
  return {
    parent,
    runDirectory,
    lock: `${runDirectory}/${LOCK_FILE}`,
    socket,
    status: `${runDirectory}/${KEPT_ANSWER_FILE}`,
  };
}

function invalid(field: string, value: string, expectation: string): DrawbridgeError {
  return new DrawbridgeError("ERR_CONFIGURATION", `${field}: ${JSON.stringify(value)}; expected ${expectation}`);
}
