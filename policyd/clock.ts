/** Cancels what was to happen later; nothing when it has happened. */
export type Cancel = () => void;

/** Time, so that a test need not wait for it. */
export interface Clock {
  /**
   * Milliseconds by a clock that is never set: only differences mean anything, and only within this process. Not whole ones.
   */
  now(): number;
  /**
   * Whole milliseconds since the epoch, by the wall clock, for what is told to others and for the times of files: it may be set
   * on or back at any moment.
   */
  time(): number;
  /** Runs an action later, once; after 0 in the next turn, behind what has come by then. Waiting keeps no process alive. */
  after(milliseconds: number, action: () => void): Cancel;
}

/** The longest that a timer of Node takes, 24 days: it takes a longer time for a millisecond. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The real clock. What is to wait for longer than 24 days comes after these: nothing is lost by it, as it is a period that long. */
export const realClock: Clock = Object.freeze({
  now: () => performance.now(),
  time: () => Date.now(),
  after: (milliseconds: number, action: () => void): Cancel => {
    if (milliseconds <= 0) {
      // A timer takes a millisecond at least. One that is unreferenced would wait for whatever else wakes the loop.
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

/** A clock that stands still until it is moved on. */
export class FakeClock implements Clock {
  #now = 1_000_000;
  /** By how much the wall clock is ahead of the other: years, so that nobody takes one for the other unnoticed. */
  #ahead = Date.UTC(2026, 10, 22);
  #left: { readonly at: number; readonly action: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  time(): number {
    return this.#ahead + this.#now;
  }

  /** Sets the wall clock on, or back by a negative number. */
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

  /** How many actions wait for their time. */
  get pending(): number {
    return this.#left.length;
  }

  /** An action takes this long: time moves on, and nothing else runs meanwhile. */
  spend(milliseconds: number): void {
    this.#now += milliseconds;
  }

  /** Moves time on and runs what is due, in order; also what that asks for within the time. */
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
