import type { Table } from "../../kernel/nftables/object.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Reading, TableWriter } from "./table_writer.ts";
import { READ_WORK, readOn } from "./table_writer.ts";
import type { TableFindings } from "./table_reading.ts";

export interface ForeignSearchParts {
  readonly writer: TableWriter;
  readonly clock: Clock;
  /** Something is wrong in what was just read: it is pending. */
  readonly onFound: () => void;
  /** Some tables were looked through. */
  readonly onEnd: (found: readonly TableFindings[]) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Looks for what somebody else has changed in tables, with turns of the event loop in between where they are large. */
export class ForeignSearch {
  readonly #parts: ForeignSearchParts;
  readonly #tables = new Set<Table>();
  #reading: Reading | undefined;
  #next: Cancel | undefined;

  constructor(parts: ForeignSearchParts) {
    this.#parts = parts;
  }

  /** Looks through tables: as far as a piece goes at once, and after what is looked through already. */
  look(tables: readonly Table[]): void {
    for (const table of tables) this.#tables.add(table);
    if (this.#next === undefined) this.#step();
  }

  /** Has tables looked through in some turn after {@link begin}: they are just being read for another reason. */
  note(tables: readonly Table[]): void {
    for (const table of tables) this.#tables.add(table);
  }

  /** Begins with what was noted. */
  begin(): void {
    if (this.#tables.size > 0) this.#next ??= this.#parts.clock.after(0, () => this.#step());
  }

  /** Gives up what is not looked through yet. */
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
