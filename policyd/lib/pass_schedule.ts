import type { Clock } from "./clock.ts";

/** The debounce time: several changes by one program cost one pass. */
export const SETTLE_MILLISECONDS = 20;
/** The longest wait before a pass that repairs what another program undoes again and again. */
const LONGEST_PAUSE = 500;
const STREAK_MILLISECONDS = 1000;
const UNPACED_CHANGES = 5;
/** The rest after a pass, as a multiple of the time it took: it leaves the thread to other work. */
const REST_SHARE = 4;
/** The back-off of a retry after the kernel refused a step. */
const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;

/** Decides when the next pass over observed state begins. */
export class PassSchedule {
  readonly #clock: Clock;
  /** Passes in a row that had to change something, each shortly after the one before. */
  #streak = 0;
  #changedAt = Number.NEGATIVE_INFINITY;
  #restUntil = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds to wait before a pass that a change has caused. */
  get pause(): number {
    const extra = Math.max(0, this.#streak - UNPACED_CHANGES);
    const settling = Math.min(SETTLE_MILLISECONDS * 2 ** extra, LONGEST_PAUSE);
    return Math.max(settling, Math.ceil(this.#restUntil - this.#clock.now()));
  }

  /** Notes that a pass changed something. @returns whether this happens so often that only the debug log reports it */
  changed(): boolean {
    const now = this.#clock.now();
    this.#streak = now - this.#changedAt < STREAK_MILLISECONDS ? this.#streak + 1 : 1;
    this.#changedAt = now;
    return this.#streak > UNPACED_CHANGES;
  }

  /**
   * Notes that a pass has ended.
   *
   * @param spent the thread's time it took, in milliseconds
   * @param isRefused whether the kernel refused a step
   * @returns milliseconds until the next pass, if nothing else causes one before
   */
  ended(spent: number, isRefused: boolean, syncPeriod: number): number {
    this.#restUntil = this.#clock.now() + REST_SHARE * spent;
    const next = isRefused ? Math.min(this.#retry, syncPeriod) : syncPeriod;
    this.#retry = isRefused ? Math.min(this.#retry * 2, LAST_RETRY) : FIRST_RETRY;
    return next;
  }
}
