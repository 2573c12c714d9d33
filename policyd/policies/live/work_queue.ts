/** Work is urgent where a caller waits for it: at an ADD, or where an address moves. */
export type Priority = "urgent" | "usual";

/**
 * A queue of distinct items for each priority: urgent ones in the order in which they were added, usual ones in turns of
 * their groups, within each of which the order is the same. So one group's items do not keep another's waiting.
 */
export class WorkQueue<T> {
  readonly #urgent = new Row<T>();
  readonly #usual: Turns<T>;

  constructor(groupOf: (item: T) => string) {
    this.#usual = new Turns(groupOf);
  }

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

/** Rows by group. Its iterator continues from group to group. */
class Turns<T> {
  readonly #groupOf: (item: T) => string;
  /** No row is empty. */
  readonly #rows = new Map<string, Row<T>>();
  #turn = this.#rows.entries();

  constructor(groupOf: (item: T) => string) {
    this.#groupOf = groupOf;
  }

  add(item: T): void {
    const group = this.#groupOf(item);
    const row = this.#rows.get(group) ?? new Row();
    row.add(item);
    this.#rows.set(group, row);
  }

  has(item: T): boolean {
    return this.#rows.get(this.#groupOf(item))?.has(item) === true;
  }

  delete(item: T): void {
    const group = this.#groupOf(item);
    const row = this.#rows.get(group);
    row?.delete(item);
    if (row?.size === 0) this.#rows.delete(group);
  }

  get size(): number {
    return [...this.#rows.values()].reduce((sum, row) => sum + row.size, 0);
  }

  take(): T | undefined {
    if (this.#rows.size === 0) return undefined;
    let next = this.#turn.next();
    if (next.done === true) {
      this.#turn = this.#rows.entries();
      next = this.#turn.next();
    }
    if (next.done === true) return undefined;
    const [group, row] = next.value;
    const item = row.take();
    if (row.size === 0) this.#rows.delete(group);
    return item;
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
