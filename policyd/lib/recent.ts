/** A map with a maximum number of entries: the entry set longest ago is removed first. */
export class Recent<V> {
  readonly #most: number;
  readonly #entries = new Map<string, V>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    for (const [first] of this.#entries) {
      if (this.#entries.size <= this.#most) break;
      this.#entries.delete(first);
    }
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
