import type { Clock } from "./clock.ts";

/**
 * Work in slices: a thread can do other things wherever it yields, and the generator returns the result.
 *
 * Between two yields there is at most a millisecond of work.
 */
export type Slices<T> = Generator<undefined, T, void>;

/** Number of values processed between two yields. */
const AT_ONCE = 64;

/** Does all slices of work without interruption. @returns its result @throws what it throws */
export function atOnce<T>(work: Slices<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Works until a time is up.
 *
 * @param step does a part of the work, and returns whether there is more
 * @returns whether all of it is done
 */
export function workFor(milliseconds: number, clock: Pick<Clock, "now">, step: () => boolean): boolean {
  const start = clock.now();
  while (step()) {
    if (clock.now() - start >= milliseconds) return false;
  }
  return true;
}

/** Calls the action for each value, in slices. */
export function* each<T>(values: Iterable<T>, action: (value: T) => void): Slices<void> {
  let left = AT_ONCE;
  for (const value of values) {
    action(value);
    if (--left > 0) continue;
    left = AT_ONCE;
    yield;
  }
}
