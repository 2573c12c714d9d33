/** All keys from `first` to `last`, both included. */
export interface Range<K> {
  readonly first: K;
  readonly last: K;
}

/** A range of an index: `furthest` is the last key of all ranges in the part whose middle it is. */
interface Indexed<K, T> extends Range<K> {
  readonly value: T;
  furthest: K;
}

/** Finds those of many ranges that contain a key without comparing it with each. They may overlap. */
export class RangeIndex<K, T> {
  /** Sorted by their first keys. The middle of each part is the root of a tree over the part. */
  readonly #ranges: readonly Indexed<K, T>[];
  readonly #compare: (a: K, b: K) => number;

  /** @param compare returns a negative number where the first key comes before the second, and 0 where they are equal */
  constructor(ranges: Iterable<readonly [Range<K>, T]>, compare: (a: K, b: K) => number) {
    this.#compare = compare;
    const all = [...ranges].map(([{ first, last }, value]): Indexed<K, T> => ({ first, last, value, furthest: last }));
    this.#ranges = all.sort((a, b) => compare(a.first, b.first));
    this.#measure(0, all.length);
  }

  /** Calls `see` with the value of each range that contains the key. */
  visit(key: K, see: (value: T) => void, low = 0, high = this.#ranges.length): void {
    const middle = (low + high) >>> 1;
    const root = this.#ranges[middle];
    if (low >= high || root === undefined || this.#compare(root.furthest, key) < 0) return;
    this.visit(key, see, low, middle);
    if (this.#compare(root.first, key) > 0) return;
    if (this.#compare(root.last, key) >= 0) see(root.value);
    this.visit(key, see, middle + 1, high);
  }

  #measure(low: number, high: number): Indexed<K, T> | undefined {
    const middle = (low + high) >>> 1;
    const root = this.#ranges[middle];
    if (low >= high || root === undefined) return undefined;
    for (const part of [this.#measure(low, middle), this.#measure(middle + 1, high)]) {
      if (part !== undefined && this.#compare(part.furthest, root.furthest) > 0) root.furthest = part.furthest;
    }
    return root;
  }
}
