import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";

/**
 * Makes a directory as a whole or not at all.
 *
 * @param {string} directory
 * @param {(unfinished: string) => void} fill gets the directory under another name
 */
export function makeWhole(directory, fill) {
  mkdirSync(path.dirname(directory), { recursive: true });
  const unfinished = mkdtempSync(`${directory}.`);
  try {
    fill(unfinished);
    // Another process may have made it meanwhile.
    if (!existsSync(directory)) renameSync(unfinished, directory);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}
