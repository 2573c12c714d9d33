import type { Output } from "../io.ts";

/** Characters in a piece: a system call for each line would take longer than everything else. */
const PIECE = 256 * 1024;

/** Writes texts while they are generated, in large pieces. */
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
