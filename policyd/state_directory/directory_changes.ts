import type { FileSight } from "../../kernel/file.ts";

/** How a directory has changed since the previous check. */
export type Seen = "missing" | "same" | "changed" | "remade";

/**
 * Remembers when a directory was last changed, so that it is read again only after a change.
 *
 * A change shortly after a check may have the same time as one before it, since the kernel's clock ticks every few
 * milliseconds. So a directory counts as changed until two checks in a row have seen the same time.
 */
export class DirectoryChanges {
  #last: FileSight | undefined;
  #isSettled = false;

  /** Compares with the previous check. A directory that was missing then is "changed". */
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
