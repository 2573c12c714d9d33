import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { LONGEST_LINE, parseRow } from "../../policyd/flows/journal.ts";
import type { FlowRow } from "../../policyd/flows/row.ts";
import { linesOf } from "../input/line_splitter.ts";

/** Enough for 20 nodes with ledgers of the largest size. */
const MOST_ROWS = 1_000_000;

/**
 * Reads flows as `drawbridge flows -o jsonl` prints them.
 *
 * @param chunks the text in pieces, so that a file is never in memory as a whole
 * @param name the file's name in messages
 * @param most the largest number of rows that is read
 * @throws DrawbridgeError ERR_INPUT naming the line that is not a flow, and for more rows than clusters have
 */
export function readFlowFile(chunks: Iterable<Uint8Array>, name: string, most: number = MOST_ROWS): readonly FlowRow[] {
  const rows: FlowRow[] = [];
  const refuse = (reason: string): never => {
    throw new DrawbridgeError("ERR_INPUT", `${name}:${number}: ${reason}`);
  };
  let number = 0;
  for (const line of linesOf(chunks, LONGEST_LINE)) {
    number++;
    if (line === undefined)
      return refuse(`a line of more than ${LONGEST_LINE} characters; expected a flow on each line`);
    if (line.trim() === "") continue;
    if (rows.length >= most) return refuse(`expected at most ${most} flows`);
    attempt(
      () => rows.push(parseRow(line)),
      (error) => refuse(error.message),
    );
  }
  return rows;
}
