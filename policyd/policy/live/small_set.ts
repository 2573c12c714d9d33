/** Up to so many values a list is searched faster than a set, and takes half of the memory. */
const FEW = 4;

const NONE: readonly never[] = [];

export interface ReadonlySmallSet<T> extends Iterable<T> {
  readonly size: number;
  has(value: T): boolean;
}

/**
 * A set of texts that nearly always has one or a few: an empty Set of JavaScript takes 150 bytes, and a node has two for each
 * pod of the cluster.
 */
export class SmallSet<T extends string> implements ReadonlySmallSet<T> {
  /** One by itself, a few in a list, more in a Set. */
  #values: T | readonly T[] | Set<T>;

  /** @param values each once */
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

  /** @returns whether it was there */
  delete(value: T): boolean {
    if (this.#values instanceof Set) return this.#values.delete(value);
    if (!this.has(value)) return false;
    this.#values = packed([...this].filter((one) => one !== value));
    return true;
  }

  /** In the order in which they were added. */
  [Symbol.iterator](): Iterator<T> {
    const values = this.#values;
    return (typeof values === "string" ? [values] : values)[Symbol.iterator]();
  }
}

/** A list that was added to has room for more: it is kept as long as it is. */
function packed<T extends string>(values: readonly T[]): T | readonly T[] | Set<T> {
  const [first] = values;
  if (first === undefined) return NONE;
  if (values.length === 1) return first;
  return values.length > FEW ? new Set(values) : values.slice();
}
