/** A queue of distinct items: urgent ones first, otherwise in the order in which they were added. */
export class WorkQueue<T> {
  readonly #urgent = new Row<T>();
  readonly #others = new Row<T>();

  /** Adds an item unless it is queued already. One that becomes urgent moves ahead of the others. */
  add(item: T, isUrgent = false): void {
    if (isUrgent) {
      this.#others.delete(item);
      this.#urgent.add(item);
    } else if (!this.#urgent.has(item)) this.#others.add(item);
  }

  has(item: T): boolean {
    return this.#urgent.has(item) || this.#others.has(item);
  }

  delete(item: T): void {
    this.#urgent.delete(item);
    this.#others.delete(item);
  }

  get size(): number {
    return this.#urgent.size + this.#others.size;
  }

  /** Removes the first item; undefined when there is none. */
  take(): T | undefined {
    return this.#urgent.take() ?? this.#others.take();
  }

  /** Like {@link take}, for urgent items only. */
  takeUrgent(): T | undefined {
    return this.#urgent.take();
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
