import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import { READ_WORK, type Reading, readOn, type TableWriter } from "../table_writer.ts";
import type { TableFindings } from "./table_reading.ts";

export interface ForeignSearchParts {
  readonly writer: TableWriter;
  readonly clock: Clock;
  /** Called when the last piece had differences; they are pending. */
  readonly onFound: () => void;
  /** Called when some tables have been read completely. */
  readonly onEnd: (found: readonly TableFindings[]) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Searches tables for changes by other programs, with turns of the event loop in between when the tables are large. */
export class ForeignSearch {
  readonly #parts: ForeignSearchParts;
  readonly #tables = new Set<Table>();
  #reading: Reading | undefined;
  #next: Cancel | undefined;

  constructor(parts: ForeignSearchParts) {
    this.#parts = parts;
  }

  /** Reads tables: the first piece at once, unless a read is in progress, which is finished first. */
  look(tables: readonly Table[]): void {
    for (const table of tables) this.#tables.add(table);
    if (this.#next === undefined) this.#step();
  }

  /** Remembers tables to be read after {@link begin}: they are just being read for another reason. */
  note(tables: readonly Table[]): void {
    for (const table of tables) this.#tables.add(table);
  }

  /** Begins to read the tables that were remembered. */
  begin(): void {
    if (this.#tables.size > 0) this.#next ??= this.#parts.clock.after(0, () => this.#step());
  }

  /** Gives up the read in progress and all that are outstanding. */
  stop(): void {
    this.#reading?.return([]);
    this.#reading = undefined;
    this.#tables.clear();
    this.#next?.();
    this.#next = undefined;
  }

  #step(): void {
    const { writer, clock, onFound, onEnd, onFailure } = this.#parts;
    this.#next = undefined;
    const before = writer.pending.size;
    try {
      if (this.#reading === undefined) {
        this.#reading = writer.read([...this.#tables]);
        this.#tables.clear();
      }
      const found = readOn(this.#reading, READ_WORK);
      if (found !== undefined) {
        this.#reading = undefined;
        onEnd(found);
      }
    } catch (error) {
      return onFailure(error);
    }
    if (writer.pending.size > before) onFound();
    if (this.#reading === undefined && this.#tables.size === 0) return;
    this.#next = clock.after(0, () => this.#step());
  }
}
