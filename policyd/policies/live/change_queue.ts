/** A queue of changes in the order in which they arrived. */
export class ChangeQueue<T> {
  #batches: (readonly T[])[] = [];
  #batch = 0;
  #place = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(changes: readonly T[]): void {
    if (changes.length > 0) this.#batches.push(changes);
    this.#size += changes.length;
  }

  /** Removes the first change; undefined when there is none. */
  take(): T | undefined {
    const batch = this.#batches[this.#batch];
    if (batch === undefined) return undefined;
    this.#size--;
    const change = batch[this.#place++];
    if (this.#place < batch.length) return change;
    this.#place = 0;
    if (++this.#batch === this.#batches.length) {
      this.#batches = [];
      this.#batch = 0;
    }
    return change;
  }
}
