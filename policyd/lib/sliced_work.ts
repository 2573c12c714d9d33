import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "./clock.ts";

/**
 * Work in slices: a thread can do other things wherever it yields, and the generator returns the result.
 *
 * Between two yields there is at most a millisecond of work.
 */
export type Slices<T> = Generator<undefined, T, void>;

/** Number of values processed between two yields. */
const AT_ONCE = 64;

/** The longest time for which {@link inTurns} blocks the event loop, except for one slice. */
const TURN_MILLISECONDS = 4;

/** Does all slices of work without interruption. @returns its result @throws what it throws */
export function atOnce<T>(work: Generator<unknown, T, void>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Does all slices of work, with turns of the event loop in between. @returns its result @throws what it throws */
export async function inTurns<T>(work: Slices<T>): Promise<T> {
  let end = performance.now() + TURN_MILLISECONDS;
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (performance.now() < end) continue;
    await turn();
    end = performance.now() + TURN_MILLISECONDS;
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

/** Calls the action for each value, in slices of `count` values. */
export function* each<T>(values: Iterable<T>, action: (value: T) => void, count = AT_ONCE): Slices<void> {
  let left = count;
  for (const value of values) {
    action(value);
    if (--left > 0) continue;
    left = count;
    yield;
  }
}

/** Calls the action for each value, with turns of the event loop in between where the values take long. */
export function eachInTurns<T>(values: Iterable<T>, action: (value: T) => void): Promise<void> {
  return inTurns(each(values, action, 1));
}
