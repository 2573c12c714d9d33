import { chmodSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { DrawbridgeError } from "../../kernel/error.ts";
import { PLUGIN } from "../executables.ts";
import { shimExecutable } from "./executable.ts";
import { SERVER_ENVIRONMENT, type ShimParameters } from "./parameters.ts";
import type { Machine } from "./system_call.ts";

const USAGE =
  "emit.ts OUTPUT --run-directory DIRECTORY [--plugin-name NAME] [--machine x64|arm64] [--server-environment NAME=VALUE]…";

/** @throws DrawbridgeError ERR_CONFIGURATION */
function machineOf(name: string): Machine {
  if (name === "x64" || name === "arm64") return name;
  throw new DrawbridgeError("ERR_CONFIGURATION", `machine: "${name}"; expected x64 or arm64`);
}

/**
 * Returns the output file and the parameters of a command line.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION, or what parseArgs throws
 */
export function emitArguments(args: readonly string[]): {
  readonly output: string;
  readonly parameters: ShimParameters;
} {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      "run-directory": { type: "string" },
      "plugin-name": { type: "string", default: PLUGIN },
      machine: { type: "string", default: process.arch },
      "server-environment": { type: "string", multiple: true, default: [...SERVER_ENVIRONMENT] },
    },
  });
  const [output, ...rest] = positionals;
  const runDirectory = values["run-directory"];
  if (output === undefined || rest.length > 0 || runDirectory === undefined)
    throw new DrawbridgeError("ERR_CONFIGURATION", `command line: expected ${USAGE}`);
  const parameters = {
    machine: machineOf(values.machine),
    runDirectory,
    pluginName: values["plugin-name"],
    serverEnvironment: values["server-environment"],
  };
  return { output, parameters };
}

if (import.meta.main) {
  const { output, parameters } = emitArguments(process.argv.slice(2));
  writeFileSync(output, shimExecutable(parameters));
  // Regardless of the umask, the container runtime must be able to execute it.
  chmodSync(output, 0o755);
}
