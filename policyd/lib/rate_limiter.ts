/** A rate: a burst at once, and then one in each period. */
export interface Rate {
  readonly burst: number;
  /** Milliseconds. */
  readonly period: number;
}

/** Limits events to a {@link Rate}. */
export class RateLimiter {
  readonly #rate: Rate;
  /** When the bucket is full again, in milliseconds: each token taken delays this by a period. */
  #fullAt = 0;

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  /** Milliseconds until a token is available; 0 where one is. @param now milliseconds of a monotonic clock */
  wait(now: number): number {
    const { burst, period } = this.#rate;
    return Math.max(0, this.#fullAt - now - (burst - 1) * period);
  }

  /** Takes tokens if there is one; the next then waits until all of them have come. @returns whether there was one */
  take(now: number, tokens = 1): boolean {
    if (this.wait(now) > 0) return false;
    this.#fullAt = Math.max(this.#fullAt, now) + tokens * this.#rate.period;
    return true;
  }
}
