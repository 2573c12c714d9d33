import type { Clock } from "./clock.ts";
import { Contest, type ContestLimits } from "./contest.ts";

/** The debounce time: several changes by one program cost one pass. */
export const SETTLE_MILLISECONDS = 20;
/** How the kernel's state is repaired while another program undoes the repairs: at most twice a second. */
export const REPAIR_CONTEST: ContestLimits = { free: 5, firstPause: 40, longestPause: 500, calm: 1000 };
/** The rest after a pass, as a multiple of the time it took: it leaves the thread to other work. */
const REST_SHARE = 4;
/** The back-off of a retry after the kernel refused a step. */
const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;

/** Decides when the next pass over observed state begins. */
export class PassSchedule {
  readonly #clock: Clock;
  readonly #contest: Contest;
  #restUntil = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#contest = new Contest(clock, REPAIR_CONTEST);
  }

  /** Milliseconds to wait before a pass that a change has caused. */
  get pause(): number {
    return Math.max(SETTLE_MILLISECONDS, this.#contest.pause, Math.ceil(this.#restUntil - this.#clock.now()));
  }

  /** Notes that a pass changed something. @returns whether this happens so often that only the debug log reports it */
  changed(): boolean {
    this.#contest.reverted();
    return this.#contest.isContested;
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
