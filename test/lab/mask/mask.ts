import process from "node:process";
import { fileURLToPath } from "node:url";
import type { MaskedFeature } from "./features.ts";

const LAUNCHER = fileURLToPath(new URL("main.ts", import.meta.url));

/**
 * Returns the command that runs a program as if the kernel lacked features: the program and its children get the real
 * errno.
 *
 * The filter works at the system call entry, so the features are hidden from every library and runtime. It cannot be
 * removed, so the command starts a separate process.
 *
 * @param file absolute path of the program
 * @returns a file and arguments for spawn or {@link LabNamespace.exec}; descriptors, environment and namespace are
 *   passed on
 */
export function masked(
  features: readonly MaskedFeature[],
  file: string,
  args: readonly string[] = [],
): { readonly file: string; readonly args: readonly string[] } {
  return { file: process.execPath, args: [LAUNCHER, features.join(","), file, ...args] };
}
