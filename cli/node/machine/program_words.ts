import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { FORMER_PLUGIN } from "../../../cni/executables.ts";

/** A text in the plugin (cni/main.ts) by which it is recognized. */
const PLUGIN_WORDS = "Drawbridge CNI plugin";

const PIECE = 1024 * 1024;

/** Returns whether a file is Drawbridge's plugin, or what a former release had to execute it. @throws Error of node:fs */
export function isOurExecutable(file: string): boolean {
  return hasWords(file, [PLUGIN_WORDS, FORMER_PLUGIN]);
}

/** Returns whether a file contains some words. The pieces overlap, so that words are found at their borders, too. */
function hasWords(file: string, words: readonly string[]): boolean {
  const overlap = Math.max(...words.map((text) => text.length)) - 1;
  let tail = Buffer.alloc(0);
  for (const piece of piecesOf(file)) {
    const text = Buffer.concat([tail, piece]);
    if (words.some((one) => text.includes(one))) return true;
    tail = text.subarray(-overlap);
  }
  return false;
}

/** Returns whether two files have the same content; undefined if the second is missing. @throws Error of node:fs */
export function isSameContent(file: string, other: string): boolean | undefined {
  const second = statSync(other, { throwIfNoEntry: false });
  if (second?.isFile() !== true) return undefined;
  const { dev, ino, size } = statSync(file);
  return (dev === second.dev && ino === second.ino) || (size === second.size && hashOf(file) === hashOf(other));
}

function hashOf(file: string): string {
  const hash = createHash("sha256");
  for (const piece of piecesOf(file)) hash.update(piece);
  return hash.digest("hex");
}

/** Yields a file's content; each piece is overwritten by the next. */
function* piecesOf(file: string): Generator<Buffer, void, void> {
  const descriptor = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(PIECE);
    for (;;) {
      const count = readSync(descriptor, buffer, 0, PIECE, null);
      if (count === 0) return;
      yield buffer.subarray(0, count);
    }
  } finally {
    closeSync(descriptor);
  }
}
