import type { StoreFileSystem } from "../../ipam/file_system.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Slices } from "../slices.ts";
import { each } from "../slices.ts";
import { rowKey } from "./flow_ends.ts";
import { LONGEST_LINE, parseRow, rowLine } from "./journal.ts";
import type { FlowRow } from "./row.ts";

/** The files of a ledger. */
export interface LedgerPlace {
  readonly files: Pick<StoreFileSystem, "makeDirectory" | "createFile" | "rename" | "unlink" | "readDirectory">;
  /** The text of a file; undefined where there is none. @throws DrawbridgeError when it cannot be read or is too long */
  readonly read: (path: string, limit: number) => string | undefined;
  readonly directory: string;
}

/** The content of the files of a ledger. */
export interface WrittenLedger {
  /** Each as it was written last, in that order. */
  readonly rows: readonly FlowRow[];
  /** A sentence for each file that cannot be used as a whole. */
  readonly problems: readonly string[];
  /** The number of the last file; 0 without any. */
  readonly last: number;
}

const VERSION = 1;
/** A ledger at its largest, and its end. */
const LARGEST_FILE = 64 * 1024 * 1024;
const NAME = /^(all|changes)-([1-9]\d{0,14})\.jsonl$/;

/** Returns whether a name is that of a file of a ledger, or of one that was not written to its end. */
export function isLedgerFile(name: string): boolean {
  return NAME.test(name.replace(/\.new$/, ""));
}

/**
 * Returns what the files of a ledger have: the newest one with all rows, and those with changes after it.
 *
 * A file ends with a line that says how many rows it has. One that does not, as after a loss of power, is reported and left out: it had
 * the changes of one interval.
 */
export function* readLedger({ files, read, directory }: LedgerPlace): Slices<WrittenLedger> {
  const problems: string[] = [];
  const rows = new Map<string, FlowRow>();
  const found = files
    .readDirectory(directory)
    .flatMap((name) => {
      const [, kind, number] = NAME.exec(name) ?? [];
      return kind === undefined ? [] : [{ name, isWhole: kind === "all", number: Number(number) }];
    })
    .sort((a, b) => a.number - b.number || Number(a.isWhole) - Number(b.isWhole));
  const first = Math.max(
    0,
    found.findLastIndex(({ isWhole }) => isWhole),
  );
  for (const { name } of found.slice(first)) {
    try {
      const own = yield* rowsIn(read(`${directory}/${name}`, LARGEST_FILE) ?? "");
      yield* each(own, (row) => {
        const key = `${row.observedAt} ${rowKey(row)}`;
        // Those that were seen last come last.
        rows.delete(key);
        rows.set(key, row);
      });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      problems.push(`${directory}/${name}: ${error.message}; its flows are left out`);
    }
  }
  return { rows: [...rows.values()], problems, last: found.at(-1)?.number ?? 0 };
}

/** Writes the changes of an interval. @throws DrawbridgeError ERR_STORE */
export function writeChanges(place: LedgerPlace, number: number, rows: readonly FlowRow[]): void {
  write(place, `changes-${number}.jsonl`, textOf(rows));
}

/** Writes all rows, after which the files before are not needed and go. @throws DrawbridgeError ERR_STORE */
export function writeAll(place: LedgerPlace, number: number, text: string): void {
  const { files, directory } = place;
  write(place, `all-${number}.jsonl`, text);
  for (const name of files.readDirectory(directory)) {
    const isOld = Number(NAME.exec(name)?.[2] ?? Infinity) < number;
    if (isOld || name.endsWith(".new")) files.unlink(`${directory}/${name}`);
  }
}

/** Returns rows as a file has them. */
export function textOf(rows: readonly FlowRow[]): string {
  return `${rows.map(rowLine).join("")}${endLine(rows.length)}`;
}

/** Returns the last line of a file with some rows. */
export function endLine(rows: number): string {
  return `${JSON.stringify({ version: VERSION, rows })}\n`;
}

function write({ files, directory }: LedgerPlace, name: string, text: string): void {
  const path = `${directory}/${name}`;
  files.makeDirectory(directory, 0o700);
  files.unlink(`${path}.new`);
  files.createFile(`${path}.new`, text);
  files.rename(`${path}.new`, path);
}

function* rowsIn(text: string): Slices<readonly FlowRow[]> {
  const lines = text.split("\n");
  const end = lines.at(-2) ?? "";
  if (lines.at(-1) !== "" || `${end}\n` !== endLine(lines.length - 2)) {
    throw new DrawbridgeError("ERR_INPUT", "it is torn: expected a last line with the number of its rows");
  }
  const rows: FlowRow[] = [];
  yield* each(lines.slice(0, -2), (line) => {
    if (line.length > LONGEST_LINE) throw new DrawbridgeError("ERR_INPUT", `line ${rows.length + 1} is too long`);
    rows.push(parseRow(line));
  });
  return rows;
}
