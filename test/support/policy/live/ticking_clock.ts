import type { Cancel, Clock } from "../../../../policyd/lib/clock.ts";
import { FakeClock } from "../../fake_clock.ts";

interface Later {
  cancel: Cancel | undefined;
}

/** A clock that advances only by a tick at each reading, so that work in slices ends its slices. */
export class TickingClock implements Clock {
  readonly #clock = new FakeClock();
  readonly #tick: number;
  #ticks = 0;
  #later: (() => void)[] | undefined;

  /** @param tick milliseconds */
  constructor(tick: number) {
    this.#tick = tick;
  }

  now(): number {
    this.#ticks += this.#tick;
    return this.#clock.now() + this.#ticks;
  }

  time(): number {
    return this.#clock.time();
  }

  after(milliseconds: number, action: () => void): Cancel {
    if (this.#later === undefined) return this.#clock.after(milliseconds, action);
    const entry: Later = { cancel: undefined };
    this.#later.push(() => {
      if (entry.cancel === undefined) entry.cancel = this.#clock.after(milliseconds, action);
    });
    return () => {
      entry.cancel?.();
      entry.cancel = () => {};
    };
  }

  /** Runs the work that is due, but not the work that it schedules. */
  tick(): void {
    const later: (() => void)[] = [];
    this.#later = later;
    this.#clock.pass(0);
    this.#later = undefined;
    for (const ask of later) ask();
  }

  /** Advances the time and runs the work that is due. */
  pass(milliseconds: number): void {
    this.#clock.pass(milliseconds);
  }
}
