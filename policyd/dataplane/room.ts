/** So many elements cost the kernel as much as a set, a chain or a rule that comes. */
const ELEMENTS_PER_UNIT = 16;
/** And so many objects that go. */
const REMOVALS_PER_UNIT = 8;

/** The work of bringing so many elements to one set: at least a message, for which the kernel looks for the set. */
export function elementsWork(count: number): number {
  return 1 + count / ELEMENTS_PER_UNIT;
}

/** The work of taking away so many objects. */
export function removalsWork(count: number): number {
  return count / REMOVALS_PER_UNIT;
}

/** What a slice has room for. The first of anything fits; behind what does not fit nothing does. */
export class Room {
  #left: number;
  #isUsed = false;
  #isFull = false;

  constructor(work: number) {
    this.#left = work;
  }

  /** The first of the items, as far as there is room; it is used up by them. */
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

  /** As many keys of elements of one set as there is room for; undefined for none. */
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
