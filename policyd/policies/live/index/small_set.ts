/** Up to this number of values, a list is searched faster than a Set and takes half of the memory. */
const FEW = 4;

const NONE: readonly never[] = [];

export interface ReadonlySmallSet<T> extends Iterable<T> {
  readonly size: number;
  has(value: T): boolean;
}

/**
 * A set of strings that nearly always has one or a few: an empty JavaScript Set takes 150 bytes, and a node has two of
 * these sets for each pod of the cluster.
 */
export class SmallSet<T extends string> implements ReadonlySmallSet<T> {
  /** A single value itself, a few values in a list, more in a Set. */
  #values: T | readonly T[] | Set<T>;

  /** @param values without duplicates */
  constructor(values: readonly T[] = NONE) {
    this.#values = packed(values);
  }

  get size(): number {
    const values = this.#values;
    if (typeof values === "string") return 1;
    return values instanceof Set ? values.size : values.length;
  }

  has(value: T): boolean {
    const values = this.#values;
    if (typeof values === "string") return values === value;
    return values instanceof Set ? values.has(value) : values.includes(value);
  }

  add(value: T): void {
    if (this.#values instanceof Set) this.#values.add(value);
    else if (!this.has(value)) this.#values = packed([...this, value]);
  }

  /** @returns whether the value was there */
  delete(value: T): boolean {
    if (this.#values instanceof Set) return this.#values.delete(value);
    if (!this.has(value)) return false;
    this.#values = packed([...this].filter((one) => one !== value));
    return true;
  }

  /** Iterates in the order in which the values were added. */
  [Symbol.iterator](): Iterator<T> {
    const values = this.#values;
    return (typeof values === "string" ? [values] : values)[Symbol.iterator]();
  }
}

/** Returns the smallest form of the values. A list that has grown has spare room, so it is copied. */
function packed<T extends string>(values: readonly T[]): T | readonly T[] | Set<T> {
  const [first] = values;
  if (first === undefined) return NONE;
  if (values.length === 1) return first;
  return values.length > FEW ? new Set(values) : values.slice();
}
