import type { Clock } from "./clock.ts";

/**
 * Work that may be put aside wherever it yields, so that a thread does other things in between; what comes out at its end.
 *
 * Between two yields there is a millisecond of work or less.
 */
export type Slices<T> = Generator<undefined, T, void>;

/** How many of a list's values are looked at between two yields. */
const AT_ONCE = 64;

/** Does work without putting it aside. @returns, @throws as it does */
export function atOnce<T>(work: Slices<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Works until a time is up.
 *
 * @param step does a piece of the work, and returns whether there is more
 * @returns whether all of it is done
 */
export function workFor(milliseconds: number, clock: Pick<Clock, "now">, step: () => boolean): boolean {
  const start = clock.now();
  while (step()) {
    if (clock.now() - start >= milliseconds) return false;
  }
  return true;
}

/** Does something with each value. */
export function* each<T>(values: Iterable<T>, action: (value: T) => void): Slices<void> {
  let left = AT_ONCE;
  for (const value of values) {
    action(value);
    if (--left > 0) continue;
    left = AT_ONCE;
    yield;
  }
}
