import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";

/** The plugin's own words (cni/main.ts): a file that has them is it. */
const PLUGIN_WORDS = "Drawbridge CNI plugin";
/** The name by which a shim starts a plugin server (cni/shim/data.ts), and the plugin knows that it is to be one. */
const SERVER_WORDS = "drawbridge-server";

const PIECE = 1024 * 1024;
/** Bytes; a shim is a few kilobytes, a plugin many megabytes. */
const LARGEST_SHIM = 64 * 1024;

/** Whether a file is Drawbridge's plugin, of a release with or without a shim, or its shim. @throws Error of node:fs */
export function isOurExecutable(file: string): boolean {
  return hasWords(file, [PLUGIN_WORDS, SERVER_WORDS]);
}

/** Whether a file is the shim. @throws Error of node:fs */
export function isShim(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size <= LARGEST_SHIM && hasWords(file, [SERVER_WORDS]);
}

/** Reads in pieces that overlap, so that words are found wherever they stand. */
function hasWords(file: string, words: readonly string[]): boolean {
  const descriptor = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(PIECE);
    const overlap = Math.max(...words.map((text) => text.length)) - 1;
    let rest = 0;
    for (;;) {
      const count = readSync(descriptor, buffer, rest, PIECE - rest, null);
      if (count === 0) return false;
      const end = rest + count;
      if (words.some((text) => buffer.subarray(0, end).includes(text))) return true;
      rest = Math.min(end, overlap);
      buffer.copyWithin(0, end - rest, end);
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Whether two files have the same content; undefined where the second is none. @throws Error of node:fs */
export function isSameContent(file: string, other: string): boolean | undefined {
  const second = statSync(other, { throwIfNoEntry: false });
  if (second?.isFile() !== true) return undefined;
  const { dev, ino, size } = statSync(file);
  return (dev === second.dev && ino === second.ino) || (size === second.size && hashOf(file) === hashOf(other));
}

function hashOf(file: string): string {
  const hash = createHash("sha256");
  const descriptor = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(PIECE);
    for (;;) {
      const count = readSync(descriptor, buffer, 0, PIECE, null);
      if (count === 0) return hash.digest("hex");
      hash.update(buffer.subarray(0, count));
    }
  } finally {
    closeSync(descriptor);
  }
}
