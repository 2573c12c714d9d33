import { EXHAUSTION_MILLISECONDS, isExhaustion } from "../../kernel/syscall/exhaustion.ts";
import type { Cancel, Clock } from "./clock.ts";

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
