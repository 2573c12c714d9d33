/** After a read, the pause is this many times as long as the read, so that requests cannot keep the node busy. */
const PAUSE_FACTOR = 9;

/** A read that many callers may request: only one runs at a time, and no two directly follow each other. */
export class PacedReading {
  readonly #read: () => Promise<void>;
  /** Milliseconds, of a monotonic clock. */
  readonly #now: () => number;
  #reading: Promise<void> | undefined;
  #next = Number.NEGATIVE_INFINITY;

  constructor(read: () => Promise<void>, now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  /** Reads, unless that was done just now. @returns a promise that resolves when the read in progress has ended */
  refresh(): Promise<void> {
    this.#reading ??= this.#readPaced().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readPaced(): Promise<void> {
    const start = this.#now();
    if (start < this.#next) return;
    await this.#read();
    const end = this.#now();
    this.#next = end + PAUSE_FACTOR * (end - start);
  }
}
