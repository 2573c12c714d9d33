/** Cancels a scheduled action; does nothing after the action has run. */
export type Cancel = () => void;

/** A source of time, replaceable in tests. */
export interface Clock {
  /** Fractional milliseconds of a monotonic clock: only differences are meaningful, and only within this process. */
  now(): number;
  /**
   * Whole milliseconds since the epoch by the wall clock, for reports and file times. It may be set forward or back at
   * any moment.
   */
  time(): number;
  /** Runs an action once, later; for 0 ms in the next turn, after pending events. A wait keeps no process alive. */
  after(milliseconds: number, action: () => void): Cancel;
}

/** The longest time of a Node timer, 24 days; a longer one would fire after a millisecond. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The real clock. Longer waits end after 24 days, which is harmless, as only periods are that long. */
export const realClock: Clock = Object.freeze({
  now: () => performance.now(),
  time: () => Date.now(),
  after: (milliseconds: number, action: () => void): Cancel => {
    if (milliseconds <= 0) {
      // A timer takes at least a millisecond, and an unreferenced immediate would wait until something else wakes the
      // loop.
      const turn = setImmediate(action);
      return () => {
        clearImmediate(turn);
      };
    }
    const timer = setTimeout(action, Math.min(milliseconds, LONGEST_TIMER)).unref();
    return () => {
      clearTimeout(timer);
    };
  },
});

/** A clock for tests that stands still until it is moved on. */
export class FakeClock implements Clock {
  #now = 1_000_000;
  /** Offset of the wall clock from the other: years, so that a mix-up of the two is noticed. */
  #ahead = Date.UTC(2026, 10, 22);
  #left: { readonly at: number; readonly action: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  time(): number {
    return this.#ahead + this.#now;
  }

  /** Sets the wall clock forward, or back for a negative number. */
  set(milliseconds: number): void {
    this.#ahead += milliseconds;
  }

  after(milliseconds: number, action: () => void): Cancel {
    const entry = { at: this.#now + milliseconds, action };
    this.#left.push(entry);
    return () => {
      this.#left = this.#left.filter((other) => other !== entry);
    };
  }

  /** Number of actions that wait for their time. */
  get pending(): number {
    return this.#left.length;
  }

  /** Moves time on as if an action took this long; no other action runs. */
  spend(milliseconds: number): void {
    this.#now += milliseconds;
  }

  /** Moves time on and runs due actions in order, including those scheduled meanwhile within the time. */
  pass(milliseconds: number): void {
    const end = this.#now + milliseconds;
    for (;;) {
      const [next] = this.#left.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#left = this.#left.filter((entry) => entry !== next);
      this.#now = Math.max(this.#now, next.at);
      next.action();
    }
    this.#now = Math.max(this.#now, end);
  }
}
