/** Up to so many values a list is searched faster than a set, and takes half of the memory. */
const FEW = 4;

const NONE: readonly never[] = [];

export interface ReadonlySmallSet<T> extends Iterable<T> {
  readonly size: number;
  has(value: T): boolean;
}

/** A set that nearly always has a few values: an empty Set of JavaScript takes 150 bytes, and a node has one for each pod. */
export class SmallSet<T> implements ReadonlySmallSet<T> {
  #few: readonly T[];
  #many: Set<T> | undefined = undefined;

  /** @param values each once */
  constructor(values: readonly T[] = NONE) {
    this.#few = values;
    if (values.length > FEW) this.#spread();
  }

  get size(): number {
    return this.#many?.size ?? this.#few.length;
  }

  has(value: T): boolean {
    return this.#many?.has(value) ?? this.#few.includes(value);
  }

  add(value: T): void {
    if (this.#many !== undefined) this.#many.add(value);
    else if (!this.#few.includes(value)) {
      this.#few = this.#few.concat([value]);
      if (this.#few.length > FEW) this.#spread();
    }
  }

  /** @returns whether it was there */
  delete(value: T): boolean {
    if (this.#many !== undefined) return this.#many.delete(value);
    const before = this.#few.length;
    this.#few = this.#few.filter((one) => one !== value);
    return this.#few.length < before;
  }

  /** In the order in which they were added. */
  [Symbol.iterator](): Iterator<T> {
    return (this.#many ?? this.#few)[Symbol.iterator]();
  }

  #spread(): void {
    this.#many = new Set(this.#few);
    this.#few = NONE;
  }
}
