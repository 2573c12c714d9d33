import { EXHAUSTION_MILLISECONDS, isExhaustion } from "../../kernel/syscall/exhaustion.ts";

/** Cancels a scheduled action; does nothing after the action has run. */
export type Cancel = () => void;

/** A source of time, replaceable in tests. */
export interface Clock {
  /** Fractional milliseconds of a monotonic clock: only differences are meaningful, and only within this process. */
  now(): number;
  /**
   * Whole milliseconds since the epoch by the wall clock, for reports and file times. It may be set forward or back at
   * any moment.
   */
  time(): number;
  /** Runs an action once, later; for 0 ms in the next turn, after pending events. A wait keeps no process alive. */
  after(milliseconds: number, action: () => void): Cancel;
}

/** The longest time of a Node timer, 24 days; a longer one would fire after a millisecond. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The real clock. Longer waits end after 24 days, which is harmless, as only periods are that long. */
export const realClock: Clock = Object.freeze({
  now: () => performance.now(),
  time: () => Date.now(),
  after: (milliseconds: number, action: () => void): Cancel => {
    if (milliseconds <= 0) {
      // A timer takes at least a millisecond, and an unreferenced immediate would wait until something else wakes the
      // loop.
      const turn = setImmediate(action);
      return () => clearImmediate(turn);
    }
    const timer = setTimeout(action, Math.min(milliseconds, LONGEST_TIMER)).unref();
    return () => clearTimeout(timer);
  },
});

/**
 * Returns a clock that runs an action again when it fails because the machine has run out of descriptors or memory, until
 * it succeeds or is cancelled: such a failure passes, and is not a bug. Every other failure is passed on.
 *
 * @param onExhausted called with each such failure
 */
export function persistentClock(clock: Clock, onExhausted: (error: Error) => void): Clock {
  const after = (milliseconds: number, action: () => void): Cancel => {
    let cancel: Cancel = () => {};
    const run = (): void => {
      try {
        action();
      } catch (error) {
        if (!isExhaustion(error)) throw error;
        onExhausted(error);
        cancel = clock.after(EXHAUSTION_MILLISECONDS, run);
      }
    };
    cancel = clock.after(milliseconds, run);
    return () => cancel();
  };
  return Object.freeze({ now: () => clock.now(), time: () => clock.time(), after });
}
