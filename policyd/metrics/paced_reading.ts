/** After a reading there is a pause of so many times as long, so that nobody who asks keeps the node busy. */
const PAUSE_FACTOR = 9;

/** A reading that many may ask for: one at a time, and none right after another. */
export class PacedReading {
  readonly #read: () => Promise<void>;
  /** Milliseconds, of a clock that is never set. */
  readonly #now: () => number;
  #reading: Promise<void> | undefined;
  #next = Number.NEGATIVE_INFINITY;

  constructor(read: () => Promise<void>, now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  /** Reads, unless that was done just now. @returns when the reading under way has ended, if there is one */
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
