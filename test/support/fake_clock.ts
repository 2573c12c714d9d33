import type { Cancel, Clock } from "../../policyd/lib/clock.ts";

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
