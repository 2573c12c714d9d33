import { readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { LabCalls } from "./libc.ts";
import { endOrphans } from "./orphans.ts";
import { isAlive, type Owner, ownerOfName } from "./owner.ts";
import { NAMESPACE_DIRECTORY, pinnedNames, unpin } from "./pin.ts";

/** The files of labs, as paths. */
export interface Leftovers {
  readonly namespaces: readonly string[];
  readonly directories: readonly string[];
}

/** Returns the existing files of the labs whose owner `isWanted`, whether or not they are still in use. */
export function findLabFiles(isWanted: (owner: Owner) => boolean): Leftovers {
  const select = (names: readonly string[], directory: string): readonly string[] =>
    names
      .filter((name) => {
        const owner = ownerOfName(name);
        return owner !== undefined && isWanted(owner);
      })
      .map((name) => path.join(directory, name));
  return {
    namespaces: select(pinnedNames(), NAMESPACE_DIRECTORY),
    directories: select(readdirSync(os.tmpdir()), os.tmpdir()),
  };
}

/**
 * Removes the remains of dead processes' labs, running programs first; the labs of living processes, including this
 * one, stay.
 *
 * Two processes may sweep at once: it is not an error if the other one has just removed something.
 *
 * @returns the files found
 */
export function sweepDeadLabs(calls: LabCalls): Leftovers {
  endOrphans();
  const leftovers = findLabFiles((owner) => !isAlive(owner));
  for (const file of leftovers.namespaces) unpin(calls, path.basename(file));
  for (const directory of leftovers.directories) rmSync(directory, { recursive: true, force: true });
  return leftovers;
}
