import type { Cancel, Clock } from "../../../../policyd/clock.ts";
import { FakeClock } from "../../../../policyd/clock.ts";

/** A clock that stands still but for a tick each time it is looked at, so that whoever works in slices ends them. */
export class TickingClock implements Clock {
  readonly #clock = new FakeClock();
  readonly #tick: number;
  #ticks = 0;

  /** @param tick milliseconds */
  constructor(tick: number) {
    this.#tick = tick;
  }

  now(): number {
    this.#ticks += this.#tick;
    return this.#clock.now() + this.#ticks;
  }

  after(milliseconds: number, action: () => void): Cancel {
    return this.#clock.after(milliseconds, action);
  }

  /** Moves time on and runs what is due. */
  pass(milliseconds: number): void {
    this.#clock.pass(milliseconds);
  }
}
