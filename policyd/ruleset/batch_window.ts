import type { Clock } from "../lib/clock.ts";

/** Milliseconds between two batches, at least; or a time that follows from their cost ({@link gatheringWindow}). */
export type BatchPeriod = number | "adaptive";

/**
 * When claims are committed: without any wait; after the window of the last batch; or, when a related change is
 * expected, together with that one if it comes within the shortest window.
 */
export type Haste = "urgent" | "usual" | "with its companion";

/** Changes are gathered this long even when a batch costs nothing: those in quick succession are one batch. */
const SHORTEST_WINDOW = 2;
/** The longest that a change waits while batches take less than this. */
const LONGEST_WINDOW = 10;
/** The longest that a change waits in overload. */
const LONGEST_OVERLOAD_WINDOW = 1000;
/** A window of this many times the batch's own time leaves batches a ninth of the time at most. */
const WINDOW_PER_BATCH = 8;

/**
 * Returns for how many milliseconds after a batch changes are gathered for the next one.
 *
 * The window is eight times what the last batch took, from 2 to 10 ms: either batches take a ninth of the time at most,
 * or no change waits longer than 10 ms. When batches take longer than 10 ms, the daemon does not keep up. The window is
 * then as long as a batch, up to a second, so that larger and fewer batches leave half of the time to everything else.
 * One slow batch is not an overload, since a pause of the garbage collector or of the processors causes one. Therefore
 * the shorter of the last two batches decides, and the window is short again after one quick batch.
 *
 * @param last how many milliseconds the last batch took
 * @param previous the same of the one before it
 */
export function gatheringWindow(last: number, previous: number): number {
  const lasting = Math.min(last, previous);
  if (lasting > LONGEST_WINDOW) return Math.min(lasting, LONGEST_OVERLOAD_WINDOW);
  return Math.min(Math.max(SHORTEST_WINDOW, WINDOW_PER_BATCH * last), LONGEST_WINDOW);
}

export interface BatchPaceOptions {
  readonly clock: Pick<Clock, "now">;
  /** The time between two batches of a burst; a change after a pause is committed at once. */
  readonly minSyncPeriod: BatchPeriod;
}

/**
 * Measures the batches of one ruleset, and computes how long a change waits. Times are milliseconds of a clock that is
 * never set (`Clock.now`).
 */
export class BatchPace {
  readonly #options: BatchPaceOptions;
  /** When the last batch was in force; undefined before the first. */
  #ended: number | undefined;
  /** How long the last batch took, and the one before it. */
  #took: readonly [last: number, previous: number] = [0, 0];
  #began: number | undefined;

  constructor(options: BatchPaceOptions) {
    this.#options = options;
  }

  /** Notes that a batch, or the next slice of one, was given to the kernel at this time. */
  began(at: number): void {
    this.#began ??= at;
  }

  /** Notes that the batch that was begun is in force now. */
  ended(): void {
    if (this.#began === undefined) return;
    this.#ended = this.#options.clock.now();
    this.#took = [Math.max(0, this.#ended - this.#began), this.#took[0]];
    this.#began = undefined;
  }

  /** Forgets the batch that was begun, because it failed: its time says nothing about how long batches take. */
  abandoned(): void {
    this.#began = undefined;
  }

  /**
   * Returns for how many milliseconds a change that comes now waits for its batch: 0 when the window of the last batch
   * is over (SYNC-03), and never longer than the window, even if the clock went back. A change whose companion is
   * expected waits for at least the shortest window; with a fixed period it waits no longer than others.
   */
  wait(haste: Haste): number {
    const { clock, minSyncPeriod: period } = this.#options;
    if (haste === "urgent") return 0;
    const window = period === "adaptive" ? gatheringWindow(...this.#took) : period;
    const wait = this.#ended === undefined ? 0 : Math.min(Math.max(0, this.#ended + window - clock.now()), window);
    return haste === "with its companion" && period === "adaptive" ? Math.max(wait, SHORTEST_WINDOW) : wait;
  }
}
