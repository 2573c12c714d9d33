import type { Clock } from "../clock.ts";

/** What one program does in several steps is looked at once. */
export const SETTLE_MILLISECONDS = 20;
/** What another program undoes again and again is put right again less often, but within a second. */
const LONGEST_PAUSE = 500;
const STREAK_MILLISECONDS = 1000;
const UNPACED_CHANGES = 5;
/** Between two looks the thread is for others, so many times as long as the last one took. */
const REST_SHARE = 4;
/** What the kernel refused is tried again. */
const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;

/** When to look at the routes again. */
export class Pace {
  readonly #clock: Clock;
  /** Looks in a row, each shortly after the one before, that had to change something. */
  #streak = 0;
  #changedAt = Number.NEGATIVE_INFINITY;
  #restUntil = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds to wait with a look there is a reason for. */
  get pause(): number {
    const extra = Math.max(0, this.#streak - UNPACED_CHANGES);
    const settling = Math.min(SETTLE_MILLISECONDS * 2 ** extra, LONGEST_PAUSE);
    return Math.max(settling, Math.ceil(this.#restUntil - this.#clock.now()));
  }

  /** Something had to be changed. @returns whether so often in a row that it is told only to those who look for faults */
  changed(): boolean {
    const now = this.#clock.now();
    this.#streak = now - this.#changedAt < STREAK_MILLISECONDS ? this.#streak + 1 : 1;
    this.#changedAt = now;
    return this.#streak > UNPACED_CHANGES;
  }

  /**
   * A look has ended.
   *
   * @param spent how many milliseconds of the thread it took
   * @param isRefused whether the kernel did not take all of it
   * @returns in how many milliseconds to look again without another reason
   */
  ended(spent: number, isRefused: boolean, syncPeriod: number): number {
    this.#restUntil = this.#clock.now() + REST_SHARE * spent;
    const next = isRefused ? Math.min(this.#retry, syncPeriod) : syncPeriod;
    this.#retry = isRefused ? Math.min(this.#retry * 2, LAST_RETRY) : FIRST_RETRY;
    return next;
  }
}
