import { pauseAfter, type WriteOutcome } from "../api_write/api_writer.ts";

/** The attempts to clear the condition so far. Times are milliseconds of a monotonic clock. */
export interface Attempts {
  /** Number in a row, with less than {@link FORGOTTEN_MILLISECONDS} between two of them, whatever their outcome. */
  readonly count: number;
  /** Number that the API server accepted, each undone later by another program. */
  readonly written: number;
  readonly lastAt: number;
  /** No attempt is made before this time. */
  readonly notBefore: number;
}

export const NO_ATTEMPTS: Attempts = Object.freeze({ count: 0, written: 0, lastAt: -Infinity, notBefore: -Infinity });
/** Time after which the watch must have shown an accepted change. */
export const UNSEEN_MILLISECONDS = 60_000;
/** Attempts in a row, some eight minutes for an absent server, before the pause is {@link RARE_MILLISECONDS}. */
export const MOST_ATTEMPTS = 12;
export const RARE_MILLISECONDS = 600_000;
const FORGOTTEN_MILLISECONDS = 3 * RARE_MILLISECONDS;

/** Returns the attempts after another one. @param random from 0 up to 1 */
export function attempted(earlier: Attempts, outcome: WriteOutcome, now: number, random: number): Attempts {
  const row = now - earlier.lastAt > FORGOTTEN_MILLISECONDS ? NO_ATTEMPTS : earlier;
  const count = row.count + 1;
  const written = row.written + (outcome.type === "written" ? 1 : 0);
  return Object.freeze({ count, written, lastAt: now, notBefore: now + pause(count, outcome, random) });
}

/** Returns the attempts after the Node became available: if the condition returns, the next attempt is soon. */
export function seenAvailable(attempts: Attempts, random: number): Attempts {
  const { count, lastAt, notBefore } = attempts;
  return Object.freeze({ ...attempts, notBefore: Math.min(notBefore, lastAt + again(count, undefined, random)) });
}

function pause(count: number, outcome: WriteOutcome, random: number): number {
  if (outcome.type === "written") return Math.max(UNSEEN_MILLISECONDS, again(count, undefined, random));
  return outcome.type === "failed" ? again(count, outcome.retryAfter, random) : rarely(random);
}

function again(count: number, retryAfter: number | undefined, random: number): number {
  return count < MOST_ATTEMPTS ? pauseAfter(count, retryAfter, random) : rarely(random);
}

function rarely(random: number): number {
  return RARE_MILLISECONDS * (1 + random / 2);
}
