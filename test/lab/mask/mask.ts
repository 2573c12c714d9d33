import process from "node:process";
import { fileURLToPath } from "node:url";
import type { MaskedFeature } from "./features.ts";

const LAUNCHER = fileURLToPath(new URL("main.ts", import.meta.url));

/**
 * The command that runs a program as if the kernel lacked features: the program and all it starts get the real errno.
 *
 * The filter sits at the system call entry, so what the mask hides is hidden from every library and runtime alike. It
 * cannot be taken off again, hence the process of its own.
 *
 * @param file absolute path of the program
 * @returns a file and arguments for spawn or {@link LabNamespace.exec}; descriptors, environment and namespace pass on
 */
export function masked(
  features: readonly MaskedFeature[],
  file: string,
  args: readonly string[] = [],
): { readonly file: string; readonly args: readonly string[] } {
  return { file: process.execPath, args: [LAUNCHER, features.join(","), file, ...args] };
}
