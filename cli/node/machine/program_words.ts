import { readFileSync, statSync } from "node:fs";

/** A text in the plugin (cni/main.ts) by which it is recognized. */
const PLUGIN_WORDS = "Drawbridge CNI plugin";

/** Returns whether a file is Drawbridge's plugin. @throws Error of node:fs */
export function isOurExecutable(file: string): boolean {
  return readFileSync(file).includes(PLUGIN_WORDS);
}

/** Returns whether two files have the same content; undefined if the second is missing. @throws Error of node:fs */
export function isSameContent(file: string, other: string): boolean | undefined {
  const second = statSync(other, { throwIfNoEntry: false });
  if (second?.isFile() !== true) return undefined;
  return statSync(file).size === second.size && readFileSync(file).equals(readFileSync(other));
}
