import type * as Call from "./call.ts";
import type { NativeCalls } from "../kernel/syscall/native.ts";
import { supportedVersions, versionResult } from "./version.ts";

/**
 * Runs the plugin: verb from the environment, configuration from standard input, result or error on standard output.
 *
 * The version and the own name are answered without loading the rest of the plugin.
 *
 * @returns the exit code
 */
function main(): number {
  const native: NativeCalls = globalThis.native;
  const print = (fd: 1 | 2, text: string): number => native.write(fd, native.encode(`${text}\n`));
  const verb = process.env["CNI_COMMAND"];
  if (!verb) {
    print(2, `Drawbridge CNI plugin\nCNI protocol versions supported: ${supportedVersions.join(", ")}`);
    return 0;
  }
  if (verb === "VERSION") return print(1, versionResult()) > 0 ? 0 : 1;
  // oxlint-disable-next-line no-unsafe-type-assertion -- the module of this path has this type
  return (native.load("cni/call.js") as typeof Call).carryOut(verb);
}

globalThis.native.exit(main());
