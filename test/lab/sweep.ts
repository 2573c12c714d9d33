import { readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { LabCalls } from "./libc.ts";
import { endOrphans } from "./orphans.ts";
import type { Owner } from "./owner.ts";
import { isAlive, ownerOfName } from "./owner.ts";
import { NAMESPACE_DIRECTORY, pinnedNames, unpin } from "./pin.ts";

/** What labs left, as paths. */
export interface Leftovers {
  readonly namespaces: readonly string[];
  readonly directories: readonly string[];
}

/** What exists of the labs whose owner `isWanted`, whether they are in use or left behind. */
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
 * Removes what labs of dead processes left, programs that run on first; those of living ones, this one's included, stay.
 *
 * Two processes may sweep at once: what the other has just removed is not an error.
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
