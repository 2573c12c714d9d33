import * as v from "valibot";
import { rowKey } from "../../policyd/flows/flow_end_names.ts";
import { parseRow, rowObject } from "../../policyd/flows/journal.ts";
import type { FlowRow } from "../../policyd/flows/row.ts";
import { parseJsonLine } from "../../policyd/lib/json_line.ts";

/** A row, with the number of connections or packets that came in since it was read before. */
export interface News {
  readonly row: FlowRow;
  readonly count: number;
}

/** Returns news as a line of JSON: the row, and the number as `new`. */
export function newsJson({ row, count }: News): string {
  return `${JSON.stringify({ ...rowObject(row), new: count })}\n`;
}

const EXPECTED = "the number of new connections";
const newSchema = v.object(
  { new: v.pipe(v.number(EXPECTED), v.safeInteger(EXPECTED), v.minValue(0, EXPECTED)) },
  EXPECTED,
);

/** Reads a line of {@link newsJson}. @throws DrawbridgeError ERR_INPUT as {@link parseRow} */
export function parseNews(line: string): News {
  const row = parseRow(line);
  return { row, count: parseJsonLine(line, newSchema, "flow").new };
}

/** Finds the news of a ledger at each read. */
export class NewsReader {
  readonly #counts = new Map<string, number>();
  #isFirst = true;

  /** Returns the rows that count more than at the last read; none at the first read. */
  news(rows: readonly FlowRow[]): readonly News[] {
    const found: News[] = [];
    for (const row of rows) {
      const key = `${row.observedAt} ${rowKey(row)}`;
      const before = this.#counts.get(key) ?? 0;
      this.#counts.set(key, row.count);
      // A row that was evicted for others and came back begins at zero.
      const count = row.count >= before ? row.count - before : row.count;
      if (count > 0 && !this.#isFirst) found.push({ row, count });
    }
    this.#isFirst = false;
    return found;
  }
}
