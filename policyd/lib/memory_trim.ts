import type { MemoryCalls } from "../../kernel/syscall/memory_calls.ts";
import type { Cancel, Clock } from "./clock.ts";

/** A trim takes less than a millisecond. Short-lived memory of lists and compilers is freed within seconds. */
const TRIM_MILLISECONDS = 30_000;

/** Returns freed memory to the node periodically: Node, V8 and OpenSSL do not free in the order of allocation. */
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
