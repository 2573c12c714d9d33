import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";

/** A text in the plugin (cni/main.ts) by which it is recognized. */
const PLUGIN_WORDS = "Drawbridge CNI plugin";

const PIECE = 1024 * 1024;

/**
 * Returns whether a file is Drawbridge's plugin. The pieces overlap, so that its words are found at their borders, too.
 *
 * @throws Error of node:fs
 */
export function isOurExecutable(file: string): boolean {
  let tail = Buffer.alloc(0);
  for (const piece of piecesOf(file)) {
    const text = Buffer.concat([tail, piece]);
    if (text.includes(PLUGIN_WORDS)) return true;
    tail = text.subarray(1 - PLUGIN_WORDS.length);
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
