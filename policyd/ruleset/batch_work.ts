/** The number of elements that cost the kernel as much as adding a set, a chain or a rule. */
const ELEMENTS_PER_UNIT = 16;
/** The number of objects to remove that cost as much. */
const REMOVALS_PER_UNIT = 8;

/** The work of adding this number of elements to a set: at least one message, for which the kernel finds the set. */
export function elementsWork(count: number): number {
  return 1 + count / ELEMENTS_PER_UNIT;
}

/** The work of removing this number of objects. */
export function removalsWork(count: number): number {
  return count / REMOVALS_PER_UNIT;
}

/** The room of a slice. The first item always fits; after one that does not fit, nothing else does. */
export class Room {
  #left: number;
  #isUsed = false;
  #isFull = false;

  constructor(work: number) {
    this.#left = work;
  }

  /** Yields items from the first on for which there is room, and uses it up. */
  *fitting<T>(items: Iterable<T>, workOf: (item: T) => number): Generator<T> {
    for (const item of items) {
      const work = workOf(item);
      this.#isFull ||= this.#isUsed && this.#left < work;
      if (this.#isFull) return;
      this.#isUsed = true;
      this.#left -= work;
      yield item;
    }
  }

  /** Returns as many keys of elements of one set as there is room for; undefined for none. */
  takeElements(keys: ReadonlySet<string>): Iterable<string> | undefined {
    const fitting = Math.max(Math.floor((this.#left - 1) * ELEMENTS_PER_UNIT), this.#isUsed ? 0 : 1);
    this.#isFull ||= fitting === 0;
    if (this.#isFull) return undefined;
    const count = Math.min(keys.size, fitting);
    this.#isUsed = true;
    this.#isFull = count < keys.size;
    this.#left -= elementsWork(count);
    return count === keys.size ? keys : firstOf(keys, count);
  }
}

function firstOf(keys: ReadonlySet<string>, count: number): readonly string[] {
  const first: string[] = [];
  for (const key of keys) if (first.push(key) === count) break;
  return first;
}
