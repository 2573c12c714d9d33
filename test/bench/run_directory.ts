import { mkdirSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { currentOwner, isAlive, ownedName, ownerOfName } from "../lab/owner.ts";

/** A file system in memory, as /run is on a node; on test machines /run may be on the disk. */
const MEMORY = "/dev/shm";

/**
 * A directory in memory for the plugins' files of /run, removed at the end; those of dead processes are removed as
 * well.
 *
 * The place of files matters: ext4 takes 0.1 ms and more to create one when many were deleted in the last minute.
 */
export class RunDirectory implements Disposable {
  readonly path: string;

  constructor() {
    for (const name of readdirSync(MEMORY)) {
      const owner = ownerOfName(name);
      if (owner !== undefined && !isAlive(owner)) remove(name);
    }
    this.path = path.join(MEMORY, ownedName(currentOwner(), "bench"));
    mkdirSync(this.path, { mode: 0o700 });
  }

  [Symbol.dispose](): void {
    remove(path.basename(this.path));
  }
}

function remove(name: string): void {
  rmSync(path.join(MEMORY, name), { recursive: true, force: true });
}
