import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";

/** In milliseconds; far more than anything takes, for a machine under load. */
const PATIENCE_MILLISECONDS = 60_000;
const LONGEST_PAUSE_MILLISECONDS = 50;

/**
 * Waits until a condition holds.
 *
 * @param what the condition, or a function that describes what is the case instead
 * @param most milliseconds
 * @throws AssertionError when it does not hold by then
 */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string),
  most: number = PATIENCE_MILLISECONDS,
): Promise<void> {
  const words = (): string => (typeof what === "string" ? `not within ${most} ms: ${what}` : what());
  await valueWhen(holds, (isSo) => isSo, words, most);
}

/**
 * Reads a value until it is as it should be, and returns it.
 *
 * @param words describes a value that is not
 * @param most milliseconds
 * @throws AssertionError with the description of the last value
 */
export async function valueWhen<T>(
  read: () => T | Promise<T>,
  isSo: (value: T) => boolean,
  words: (value: T) => string,
  most: number = PATIENCE_MILLISECONDS,
): Promise<T> {
  const end = performance.now() + most;
  for (let interval = 1; ; interval = Math.min(2 * interval, LONGEST_PAUSE_MILLISECONDS)) {
    const value = await read();
    if (isSo(value)) return value;
    if (performance.now() > end) assert.fail(words(value));
    await pause(interval);
  }
}
