import type { MemoryCalls } from "../kernel/syscall/memory_calls.ts";
import type { Cancel, Clock } from "./clock.ts";

/** A trim takes less than a millisecond; what lists and compilers take for moments is freed within seconds. */
const TRIM_MILLISECONDS = 30_000;

/** Has what is freed given back to the node again and again: Node, V8 and OpenSSL free in another order than they take. */
export function keepMemoryTrimmed(calls: MemoryCalls, clock: Pick<Clock, "after">): Cancel {
  let cancel: Cancel = () => {};
  const later = (): void => {
    cancel = clock.after(TRIM_MILLISECONDS, () => {
      calls.trimMemory();
      later();
    });
  };
  later();
  return () => cancel();
}
