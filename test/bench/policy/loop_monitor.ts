import process from "node:process";

/** The longest turns of an event loop, in milliseconds. */
export interface LongestTurns {
  /** By the clock: so long everything else had to wait, for whatever reason. */
  readonly longestTurn: number;
  /** Of the processor, by this thread: so long it worked itself. */
  readonly longestProcessor: number;
}

/** Watches this thread's event loop: how long each of its turns keeps everything else waiting. */
export class LoopMonitor {
  readonly #now: () => number;
  #isRunning = true;
  #last: number;
  #processor = process.threadCpuUsage();
  #longestTurn = 0;
  #longestProcessor = 0;

  /** @param now milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#last = now();
    this.#watch();
  }

  /** Forgets what was. */
  reset(): void {
    this.#note();
    this.#longestTurn = 0;
    this.#longestProcessor = 0;
  }

  /** Ends it. @returns the longest turns, that under way among them */
  stop(): LongestTurns {
    this.#isRunning = false;
    this.#note();
    return { longestTurn: this.#longestTurn, longestProcessor: this.#longestProcessor };
  }

  #watch(): void {
    setImmediate(() => {
      if (!this.#isRunning) return;
      this.#note();
      this.#watch();
    });
  }

  #note(): void {
    const now = this.#now();
    const { user, system } = process.threadCpuUsage(this.#processor);
    this.#longestTurn = Math.max(this.#longestTurn, now - this.#last);
    this.#longestProcessor = Math.max(this.#longestProcessor, (user + system) / 1000);
    this.#last = now;
    this.#processor = process.threadCpuUsage();
  }
}
