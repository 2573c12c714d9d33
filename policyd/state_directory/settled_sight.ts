import type { FileSight } from "../../kernel/file.ts";

/** The difference between a look at a directory and the one before. */
export type Seen = "missing" | "same" | "changed" | "remade";

/**
 * Remembers when a directory was changed last, so that its content is read again only after a change.
 *
 * A change shortly after a look may have the same time as one before it, since the kernel's clock ticks every few milliseconds. So a
 * directory counts as changed until two looks in a row have seen the same time.
 */
export class SettledSight {
  #last: FileSight | undefined;
  #isSettled = false;

  /** Compares a look with the one before. A directory that was missing before is "changed". */
  see(sight: FileSight | undefined): Seen {
    const last = this.#last;
    this.#last = sight ?? last;
    const wasSettled = this.#isSettled;
    this.#isSettled = sight !== undefined && last?.changedAt === sight.changedAt && last.identity === sight.identity;
    if (sight === undefined) return "missing";
    if (last !== undefined && last.identity !== sight.identity) return "remade";
    return this.#isSettled && wasSettled ? "same" : "changed";
  }
}
