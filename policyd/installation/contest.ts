import type { Clock } from "../lib/clock.ts";

/** Number of changes to our part that are reverted at once: an upgrade of another add-on may take several. */
const FREE = 3;
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 60_000;
/** Milliseconds. When our part has stayed unchanged for this long, and for twice the last wait, the contest is over. */
const CALM = 10_000;

/** Decides how long to leave our part of a file to another program that keeps changing it. */
export class Contest {
  readonly #clock: Pick<Clock, "now">;
  #losses = 0;
  #next = 0;
  #lastWritten = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Another program has changed our part after it was in place. */
  lost(): void {
    // Our part may have been in place for a while without a check.
    this.held();
    this.#losses++;
    this.#next = this.#clock.now() + this.#pause;
  }

  /** Our part was written. */
  written(): void {
    this.#lastWritten = this.#clock.now();
  }

  /** Our part was found in place. */
  held(): void {
    if (this.#clock.now() - this.#lastWritten >= Math.max(CALM, 2 * this.#pause)) this.#losses = 0;
  }

  /** Milliseconds until our part may be written again. */
  get wait(): number {
    return this.#losses > FREE ? Math.max(0, this.#next - this.#clock.now()) : 0;
  }

  /** Whether another program keeps changing our part, which is then reported. */
  get isContested(): boolean {
    return this.#losses > FREE;
  }

  get #pause(): number {
    return this.#losses > FREE ? Math.min(FIRST_WAIT * 2 ** (this.#losses - FREE - 1), LONGEST_WAIT) : 0;
  }
}
