import { replaceFile, type ReplacingCall, type StoreFileSystem } from "../../ipam/file_system.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { each, type Slices } from "../lib/sliced_work.ts";
import { rowKey } from "./flow_end_names.ts";
import { LONGEST_LINE, parseRow, rowLine } from "./journal.ts";
import type { FlowRow } from "./row.ts";

/** The files of a ledger. */
export interface LedgerPlace {
  readonly files: Pick<StoreFileSystem, ReplacingCall | "readDirectory">;
  /** Returns a file's text; undefined for a missing one. @throws DrawbridgeError when it is unreadable or too long */
  readonly read: (path: string, limit: number) => string | undefined;
  readonly directory: string;
}

/** The content of the files of a ledger. */
export interface WrittenLedger {
  /** Each row as last written, in the order of these writes. */
  readonly rows: readonly FlowRow[];
  /** A sentence for each file that is not used. */
  readonly problems: readonly string[];
  /** The number of the last file; 0 without any. */
  readonly last: number;
  /** The number of the file with all rows that was read; 0 without any. */
  readonly whole: number;
}

const VERSION = 1;
/** Size limit of a file, above the largest ledger. */
const LARGEST_FILE = 64 * 1024 * 1024;
const NAME = /^(all|changes)-([1-9]\d{0,14})\.jsonl$/;

/** Returns whether a name is that of a ledger file, complete or not. */
export function isLedgerFile(name: string): boolean {
  return NAME.test(name.replace(/^\./, ""));
}

/** Returns the files of a ledger, the newest one first. */
function filesIn({ files, directory }: LedgerPlace) {
  return files
    .readDirectory(directory)
    .flatMap((name) => {
      const [, kind, number] = NAME.exec(name) ?? [];
      return kind === undefined ? [] : [{ name, isWhole: kind === "all", number: Number(number) }];
    })
    .sort((a, b) => b.number - a.number || Number(b.isWhole) - Number(a.isWhole));
}

/**
 * Reads a ledger: the newest complete file with all rows, and the change files after it.
 *
 * A file ends with a line that states its number of rows. A file without this line, as after a power failure, is
 * reported and omitted; it had the changes of one interval.
 */
export function* readLedger(place: LedgerPlace): Slices<WrittenLedger> {
  const problems: string[] = [];
  const rows = new Map<string, FlowRow>();
  const found = filesIn(place);
  let whole = 0;
  for (const { name, isWhole, number } of found) {
    const path = `${place.directory}/${name}`;
    try {
      const own = yield* rowsIn(place.read(path, LARGEST_FILE) ?? "");
      yield* each(own.toReversed(), (row) => {
        const key = `${row.observedAt} ${rowKey(row)}`;
        if (!rows.has(key)) rows.set(key, row);
      });
      if (isWhole) {
        whole = number;
        break;
      }
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      problems.push(`${path}: ${error.message}; its flows are omitted`);
    }
  }
  return { rows: [...rows.values()].toReversed(), problems, last: found[0]?.number ?? 0, whole };
}

/** Writes the changes of an interval. @throws DrawbridgeError ERR_STORE */
export function writeChanges(place: LedgerPlace, number: number, text: string): void {
  replaceFile(place.files, place.directory, `changes-${number}.jsonl`, text);
}

/**
 * Writes all rows and removes what came before the previous file with all rows. This one stays with its change files,
 * since the new file is torn if the power fails before the kernel has written it to the disk.
 *
 * @param previous the number of the last one that is not torn; 0 without any
 * @throws DrawbridgeError ERR_STORE
 */
export function writeAll(place: LedgerPlace, number: number, text: string, previous: number): void {
  const { files, directory } = place;
  replaceFile(files, directory, `all-${number}.jsonl`, text);
  for (const name of files.readDirectory(directory)) {
    const isOld = Number(NAME.exec(name)?.[2] ?? Infinity) < previous;
    if (isOld || name.startsWith(".")) files.unlink(`${directory}/${name}`);
  }
}

/** Returns rows in the file format. */
export function* textOf(rows: Iterable<FlowRow>): Slices<string> {
  const all = [...rows];
  let text = "";
  yield* each(all, (row) => (text += rowLine(row)));
  return text + endLine(all.length);
}

/** Returns the last line of a file with this number of rows. */
function endLine(rows: number): string {
  return `${JSON.stringify({ version: VERSION, rows })}\n`;
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
