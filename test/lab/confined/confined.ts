import process from "node:process";
import { fileURLToPath } from "node:url";

const LAUNCHER = fileURLToPath(new URL("main.ts", import.meta.url));

/** The parts of its machine that a container of Kubernetes may use. */
export interface Confinement {
  /** The capabilities, as Pod specs name them ("NET_ADMIN"); all others are dropped. */
  readonly capabilities: readonly string[];
  /** The writable paths; the rest of the file system is read-only. */
  readonly writable: readonly string[];
  /** A file in the format of container runtimes; undefined for none. */
  readonly seccompProfile?: string;
}

/**
 * Returns the command that runs a program as a container runtime would: with a read-only root, few capabilities, no new
 * privileges, and a seccomp profile. None of this can be undone, so the command starts a separate process.
 *
 * @param file absolute path of the program
 * @returns a file and arguments for spawn or {@link LabNamespace.exec}; descriptors, environment and network namespace
 *   are passed on
 */
export function confined(
  confinement: Confinement,
  file: string,
  args: readonly string[] = [],
): { readonly file: string; readonly args: readonly string[] } {
  return { file: process.execPath, args: [LAUNCHER, JSON.stringify(confinement), file, ...args] };
}
