/** A queue of distinct items. Its iterator continues: a new one would pass over all places that were taken before. */
export class DistinctQueue<T> {
  readonly #items = new Set<T>();
  #place = this.#items.values();

  /** Adds an item at the end, unless it is queued already. */
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

  /** The items, the first one first. */
  values(): Iterable<T> {
    return this.#items;
  }

  /** Removes the first item; undefined when there is none. */
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

/**
 * A queue of distinct items in which groups take turns: the next item is the first of the group whose turn was longest
 * ago. When the queue is full, the oldest item of the largest group makes room, so no group displaces another's items.
 */
export class FairQueue<T> {
  readonly #most: number;
  /** The items by group; no group is empty. */
  readonly #groups = new Map<string, DistinctQueue<T>>();
  /** The groups in the order of turns. */
  #turns = new DistinctQueue<string>();
  #size = 0;

  /** @param most the number of items that may wait */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#size;
  }

  /** @returns the item that had to make room, if any */
  add(group: string, item: T): T | undefined {
    if (this.has(group, item)) return undefined;
    const items = this.#groups.get(group) ?? new DistinctQueue();
    items.add(item);
    this.#groups.set(group, items);
    this.#turns.add(group);
    this.#size++;
    return this.#size > this.#most ? this.#shift(this.#largest()) : undefined;
  }

  hasGroup(group: string): boolean {
    return this.#groups.has(group);
  }

  has(group: string, item: T): boolean {
    return this.#groups.get(group)?.has(item) === true;
  }

  delete(group: string, item: T): void {
    const items = this.#groups.get(group);
    if (items?.has(item) !== true) return;
    items.delete(item);
    this.#removed(group, items);
  }

  /**
   * Takes the next item, and moves its group to the end of the turns.
   *
   * @param isReady whether a group may have a turn; called for one group after the other until one may. All may when
   *   absent: then it takes the same time however many there are.
   */
  take(isReady?: (group: string) => boolean): T | undefined {
    const first = isReady === undefined ? this.#turns.take() : this.#firstOf(isReady);
    if (first === undefined) return undefined;
    const item = this.#shift(first);
    this.#turns.delete(first);
    if (this.#groups.has(first)) this.#turns.add(first);
    return item;
  }

  clear(): void {
    this.#groups.clear();
    this.#turns = new DistinctQueue();
    this.#size = 0;
  }

  #shift(group: string): T | undefined {
    const items = this.#groups.get(group);
    const item = items?.take();
    if (items !== undefined) this.#removed(group, items);
    return item;
  }

  #removed(group: string, left: DistinctQueue<T>): void {
    this.#size--;
    if (left.size > 0) return;
    this.#groups.delete(group);
    this.#turns.delete(group);
  }

  #firstOf(isReady: (group: string) => boolean): string | undefined {
    for (const group of this.#turns.values()) if (isReady(group)) return group;
    return undefined;
  }

  #largest(): string {
    let largest = "";
    let most = 0;
    for (const [group, { size }] of this.#groups) if (size > most) [largest, most] = [group, size];
    return largest;
  }
}
