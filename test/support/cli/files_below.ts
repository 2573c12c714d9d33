import { createHash } from "node:crypto";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";

/** Returns each file below a directory with its type and a hash of its content. */
export function filesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const file = path.join(entry.parentPath, entry.name);
      if (entry.isDirectory()) return `${file}/`;
      if (entry.isSymbolicLink()) return `${file} -> ${readlinkSync(file)}`;
      return `${file} ${createHash("sha256").update(readFileSync(file)).digest("hex")}`;
    })
    .toSorted();
}
