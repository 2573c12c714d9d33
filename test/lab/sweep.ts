import { existsSync, readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { LabCalls } from "./libc.ts";
import { endOrphans } from "./orphans.ts";
import { isAlive, type Owner, ownerOfName } from "./owner.ts";
import { unpin } from "./pin.ts";

/** Returns the existing directories of the labs whose owner `isWanted`, whether or not they are still in use. */
export function labDirectories(isWanted: (owner: Owner) => boolean): readonly string[] {
  const isOfWanted = (name: string): boolean => {
    const owner = ownerOfName(name);
    return owner !== undefined && isWanted(owner);
  };
  return readdirSync(os.tmpdir())
    .filter(isOfWanted)
    .map((name) => path.join(os.tmpdir(), name));
}

/** Returns the directory of a lab's namespaces, a file for each. */
export function namespacesIn(scratch: string): string {
  return path.join(scratch, "namespaces");
}

/**
 * Removes the remains of dead processes' labs, running programs first; the labs of living processes, including this
 * one, stay.
 *
 * Two processes may sweep at once: it is not an error if the other one has just removed something.
 */
export function sweepDeadLabs(calls: LabCalls): void {
  endOrphans();
  for (const directory of labDirectories((owner) => !isAlive(owner))) {
    const namespaces = namespacesIn(directory);
    for (const name of existsSync(namespaces) ? readdirSync(namespaces) : []) unpin(calls, path.join(namespaces, name));
    rmSync(directory, { recursive: true, force: true });
  }
}
