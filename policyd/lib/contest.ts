import type { Clock } from "./clock.ts";

/** How a component answers another program that keeps changing what is ours. Times are in milliseconds. */
export interface ContestLimits {
  /** The number of changes that are reverted at once: an upgrade of another program may take several. */
  readonly free: number;
  /** How long ours is left to the other program after the first change beyond these, doubled after each further one. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** When ours has stayed unchanged for this long, and for twice the last pause, the contest is over. */
  readonly calm: number;
}

/** Decides how long to leave something of ours to another program that keeps changing it. */
export class Contest {
  readonly #clock: Pick<Clock, "now">;
  readonly #limits: ContestLimits;
  #losses = 0;
  #next = 0;
  #lastWritten = 0;

  constructor(clock: Pick<Clock, "now">, limits: ContestLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** Another program has changed ours after it was in place. */
  lost(): void {
    // Ours may have been in place for a while without a check.
    this.held();
    this.#losses++;
    this.#next = this.#clock.now() + this.pause;
  }

  /** Ours was written. */
  written(): void {
    this.#lastWritten = this.#clock.now();
  }

  /** Another program's change has been reverted at once. */
  reverted(): void {
    this.lost();
    this.written();
  }

  /** Ours was found in place. */
  held(): void {
    if (this.#clock.now() - this.#lastWritten >= Math.max(this.#limits.calm, 2 * this.pause)) this.#losses = 0;
  }

  /** Milliseconds until ours may be written again. */
  get wait(): number {
    return this.isContested ? Math.max(0, this.#next - this.#clock.now()) : 0;
  }

  /** Whether another program keeps changing ours, which is then reported. */
  get isContested(): boolean {
    return this.#losses > this.#limits.free;
  }

  /** Milliseconds from a change by the other program until ours may be written again. */
  get pause(): number {
    const { free, firstPause, longestPause } = this.#limits;
    return this.isContested ? Math.min(firstPause * 2 ** (this.#losses - free - 1), longestPause) : 0;
  }
}
