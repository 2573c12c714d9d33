/** Work is urgent where a caller waits for it: at an ADD, or where an address moves. */
export type Priority = "urgent" | "usual";

/** A queue of distinct items for each priority, in the order in which they were added. */
export class WorkQueue<T> {
  readonly #urgent = new Row<T>();
  readonly #usual = new Row<T>();

  /** Adds an item unless it is queued already. One that becomes urgent leaves the usual ones. */
  add(item: T, priority: Priority = "usual"): void {
    if (priority === "urgent") {
      this.#usual.delete(item);
      this.#urgent.add(item);
    } else if (!this.#urgent.has(item)) this.#usual.add(item);
  }

  has(item: T): boolean {
    return this.#urgent.has(item) || this.#usual.has(item);
  }

  delete(item: T): void {
    this.#urgent.delete(item);
    this.#usual.delete(item);
  }

  get size(): number {
    return this.#urgent.size + this.#usual.size;
  }

  /** Removes the first item of a priority; undefined when there is none. */
  take(priority: Priority): T | undefined {
    return priority === "urgent" ? this.#urgent.take() : this.#usual.take();
  }

  /** Removes the first item of a priority and works on it. @returns whether there was one */
  takeAnd(priority: Priority, work: (item: T) => void): boolean {
    const item = this.take(priority);
    if (item !== undefined) work(item);
    return item !== undefined;
  }
}

/** Its iterator continues from its last place: a new one would pass over all places that were taken before. */
class Row<T> {
  readonly #items = new Set<T>();
  #place = this.#items.values();

  add(item: T): void {
    this.#items.add(item);
  }

  has(item: T): boolean {
    return this.#items.has(item);
  }

  delete(item: T): void {
    this.#items.delete(item);
  }

  get size(): number {
    return this.#items.size;
  }

  take(): T | undefined {
    if (this.#items.size === 0) return undefined;
    let next = this.#place.next();
    if (next.done === true) {
      this.#place = this.#items.values();
      next = this.#place.next();
    }
    if (next.done === true) return undefined;
    this.#items.delete(next.value);
    return next.value;
  }
}
