import { DistinctQueue, FairQueue } from "../../lib/fair_queue.ts";

/** Work is urgent where a caller waits for it: at an ADD, or where an address moves. */
export type Priority = "urgent" | "usual";

/**
 * A queue of distinct items for each priority: urgent ones in the order in which they were added, usual ones in turns of
 * their groups, within each of which the order is the same. So one group's items do not keep another's waiting.
 */
export class WorkQueue<T> {
  readonly #groupOf: (item: T) => string;
  readonly #urgent = new DistinctQueue<T>();
  readonly #usual = new FairQueue<T>(Number.POSITIVE_INFINITY);

  constructor(groupOf: (item: T) => string) {
    this.#groupOf = groupOf;
  }

  /** Adds an item unless it is queued already. One that becomes urgent leaves the usual ones. */
  add(item: T, priority: Priority = "usual"): void {
    if (priority === "urgent") {
      this.#usual.delete(this.#groupOf(item), item);
      this.#urgent.add(item);
    } else if (!this.#urgent.has(item)) this.#usual.add(this.#groupOf(item), item);
  }

  delete(item: T): void {
    this.#urgent.delete(item);
    this.#usual.delete(this.#groupOf(item), item);
  }

  get size(): number {
    return this.#urgent.size + this.#usual.size;
  }

  /**
   * Removes the first item of a priority and works on it.
   *
   * @param isReady whether the urgent items of a group may be taken; goes through those that may not
   * @returns whether there was one
   */
  takeAnd(priority: Priority, work: (item: T) => void, isReady?: (group: string) => boolean): boolean {
    const item = priority === "urgent" ? this.#takeUrgent(isReady) : this.#usual.take();
    if (item !== undefined) work(item);
    return item !== undefined;
  }

  #takeUrgent(isReady?: (group: string) => boolean): T | undefined {
    if (isReady === undefined) return this.#urgent.take();
    for (const item of this.#urgent.values()) {
      if (!isReady(this.#groupOf(item))) continue;
      this.#urgent.delete(item);
      return item;
    }
    return undefined;
  }
}
