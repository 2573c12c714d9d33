import type { Output } from "../io.ts";

/** Characters: a system call for each line would take longer than all the rest. */
const PIECE = 256 * 1024;

/** Writes texts that are made while they are written, in large pieces. */
export function writeAll(out: Pick<Output, "write">, texts: Iterable<string>): void {
  let piece = "";
  for (const text of texts) {
    piece += text;
    if (piece.length < PIECE) continue;
    out.write(piece);
    piece = "";
  }
  if (piece !== "") out.write(piece);
}
