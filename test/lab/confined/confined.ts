import process from "node:process";
import { fileURLToPath } from "node:url";

const LAUNCHER = fileURLToPath(new URL("main.ts", import.meta.url));

/** What a container of Kubernetes is given of its machine. */
export interface Confinement {
  /** As Pod specs name them ("NET_ADMIN"); all others are dropped. */
  readonly capabilities: readonly string[];
  /** Everything else of the file system is read-only. */
  readonly writable: readonly string[];
  /** A file in the format of container runtimes; undefined for none. */
  readonly seccompProfile?: string;
}

/**
 * The command that runs a program as a container runtime would run it: a read-only root, few capabilities, no new
 * privileges, a seccomp profile. None of it can be taken off again, hence the process of its own.
 *
 * @param file absolute path of the program
 * @returns a file and arguments for spawn or {@link LabNamespace.exec}; descriptors, environment and network namespace
 *   pass on
 */
export function confined(
  confinement: Confinement,
  file: string,
  args: readonly string[] = [],
): { readonly file: string; readonly args: readonly string[] } {
  return { file: process.execPath, args: [LAUNCHER, JSON.stringify(confinement), file, ...args] };
}
