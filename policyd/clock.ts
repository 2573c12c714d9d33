/** Cancels what was to happen later; nothing when it has happened. */
export type Cancel = () => void;

/** Time, so that a test need not wait for it. */
export interface Clock {
  /** Milliseconds since the epoch, comparable with the times of files. */
  now(): number;
  /** Runs an action later, once; after 0 in the next turn, behind what has come by then. Waiting keeps no process alive. */
  after(milliseconds: number, action: () => void): Cancel;
}

/** The real clock. */
export const realClock: Clock = Object.freeze({
  now: () => Date.now(),
  after: (milliseconds: number, action: () => void): Cancel => {
    if (milliseconds <= 0) {
      // A timer takes a millisecond at least. One that is unreferenced would wait for whatever else wakes the loop.
      const turn = setImmediate(action);
      return () => {
        clearImmediate(turn);
      };
    }
    const timer = setTimeout(action, milliseconds).unref();
    return () => {
      clearTimeout(timer);
    };
  },
});

/** A clock that stands still until it is moved on. */
export class FakeClock implements Clock {
  #now = 1_000_000;
  #left: { readonly at: number; readonly action: () => void }[] = [];

  now(): number {
    return this.#now;
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
    this.#now = end;
  }
}
