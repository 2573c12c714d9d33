/**
 * A queue in which groups take turns: the next item is the first of the group whose turn was longest ago. When the
 * queue is full, the oldest item of the largest group makes room, so no group displaces another's items.
 */
export class FairQueue<T> {
  readonly #most: number;
  /** The items by group, in the order of turns; no group is empty. */
  readonly #groups = new Map<string, T[]>();
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
    const items = this.#groups.get(group);
    if (items === undefined) this.#groups.set(group, [item]);
    else items.push(item);
    this.#size++;
    return this.#size > this.#most ? this.#shift(this.#largest()) : undefined;
  }

  /**
   * Takes the next item, and moves its group to the end of the turns.
   *
   * @param isReady whether a group may have a turn; called for one group after the other until one may
   */
  take(isReady: (group: string) => boolean = () => true): T | undefined {
    const first = this.#firstOf(isReady);
    if (first === undefined) return undefined;
    const item = this.#shift(first);
    const left = this.#groups.get(first);
    if (left !== undefined) {
      this.#groups.delete(first);
      this.#groups.set(first, left);
    }
    return item;
  }

  clear(): void {
    this.#groups.clear();
    this.#size = 0;
  }

  #shift(group: string): T | undefined {
    const items = this.#groups.get(group);
    const item = items?.shift();
    if (item !== undefined) this.#size--;
    if (items?.length === 0) this.#groups.delete(group);
    return item;
  }

  #firstOf(isReady: (group: string) => boolean): string | undefined {
    for (const group of this.#groups.keys()) if (isReady(group)) return group;
    return undefined;
  }

  #largest(): string {
    let largest = "";
    let most = 0;
    for (const [group, { length }] of this.#groups) if (length > most) [largest, most] = [group, length];
    return largest;
  }
}
