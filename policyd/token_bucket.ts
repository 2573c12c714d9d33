/** How often something may happen: so often at once, and then once in each period. */
export interface Rate {
  readonly burst: number;
  /** In milliseconds. */
  readonly period: number;
}

/** Counts what happens against a {@link Rate}. */
export class TokenBucket {
  readonly #rate: Rate;
  /** When it is full again, in milliseconds: each token taken puts it off by a period. */
  #fullAt = 0;

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  /** Milliseconds until there is a token; 0 where there is one. @param now milliseconds, of a clock that is never set */
  wait(now: number): number {
    const { burst, period } = this.#rate;
    return Math.max(0, this.#fullAt - now - (burst - 1) * period);
  }

  /** Takes a token, if there is one. */
  take(now: number): boolean {
    if (this.wait(now) > 0) return false;
    this.#fullAt = Math.max(this.#fullAt, now) + this.#rate.period;
    return true;
  }
}
