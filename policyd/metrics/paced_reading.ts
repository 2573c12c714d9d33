/** After a read, the pause is this many times as long as the read, so that requests cannot keep the node busy. */
const PAUSE_FACTOR = 9;

/** A read that many callers may request: only one runs at a time, and no two directly follow each other. */
export class PacedReading {
  /** Milliseconds, of a monotonic clock. */
  readonly #now: () => number;
  #reading: Promise<void> | undefined;
  #next = Number.NEGATIVE_INFINITY;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Reads, unless that was done just now. @returns a promise that resolves when the read in progress has ended */
  refresh(read: () => Promise<void>): Promise<void> {
    this.#reading ??= this.#readPaced(read).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readPaced(read: () => Promise<void>): Promise<void> {
    const start = this.#now();
    if (start < this.#next) return;
    await read();
    const end = this.#now();
    this.#next = end + PAUSE_FACTOR * (end - start);
  }
}
