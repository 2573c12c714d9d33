/**
 * A queue of which each group gets its turn: the next item is the first of the group whose turn was longest ago. Where more than the
 * most wait, the oldest of the group with the most items makes room, so no group takes the place of others.
 */
export class FairQueue<T> {
  readonly #most: number;
  /** By group, those whose turn comes first first; none is empty. */
  readonly #groups = new Map<string, T[]>();
  #size = 0;

  /** @param most items that wait at once */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#size;
  }

  /** @returns the item that made room, if one had to */
  add(group: string, item: T): T | undefined {
    const items = this.#groups.get(group);
    if (items === undefined) this.#groups.set(group, [item]);
    else items.push(item);
    this.#size++;
    return this.#size > this.#most ? this.#shift(this.#largest()) : undefined;
  }

  /**
   * Takes the next item, and gives its group the last turn.
   *
   * @param isReady whether a group may have a turn; asked of one after the other until one may
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
