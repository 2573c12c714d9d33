import type { Logger } from "../log/logger.ts";

/** After a read, the pause is this many times as long as the read, so that requests cannot keep the node busy. */
const PAUSE_FACTOR = 9;

/** A read that many callers may request: only one runs at a time, and no two directly follow each other. */
export class PacedReading {
  /** Milliseconds, of a monotonic clock. */
  readonly #now: () => number;
  readonly #logger: Logger;
  #reading: Promise<void> | undefined;
  #next = Number.NEGATIVE_INFINITY;

  constructor({ now, logger }: { readonly now: () => number; readonly logger: Logger }) {
    this.#now = now;
    this.#logger = logger;
  }

  /** Reads, unless that was done just now. @returns a promise that resolves when the read in progress has ended */
  refresh(read: () => Promise<void>): Promise<void> {
    this.#reading ??= this.#readPaced(read).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Carries out a part of a read. If it fails, the others go on. */
  async attempt(read: () => void | Promise<void>): Promise<void> {
    try {
      await read();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Logs an error, even one from a bug: reporting must not keep rules from being changed. */
  failed(error: unknown): void {
    this.#logger.warn("counters are not read", { error: error instanceof Error ? error.message : String(error) });
  }

  async #readPaced(read: () => Promise<void>): Promise<void> {
    const start = this.#now();
    if (start < this.#next) return;
    await read();
    const end = this.#now();
    this.#next = end + PAUSE_FACTOR * (end - start);
  }
}
