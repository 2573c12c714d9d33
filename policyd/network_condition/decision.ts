import { pauseAfter } from "../api_write/pause.ts";
import type { Refusal } from "../api_write/refusal.ts";

/** What is known when it is decided what to do about the condition. */
export interface Situation {
  /** Milliseconds, of a clock that is never set, as all times here. */
  readonly now: number;
  /** Since when the own Node says that its network is unavailable; undefined while it does not. */
  readonly unavailableSince: number | undefined;
  /** Whether rules and routes are in force, and whatever else the daemon is ready by. */
  readonly isReady: boolean;
  /** Whether the configuration has the daemon clear it. */
  readonly isOurs: boolean;
  readonly attempts: Attempts;
}

/** What was tried so far. */
export interface Attempts {
  /** In a row: with less than {@link FORGOTTEN_MILLISECONDS} between each and the next, whatever came of them. */
  readonly count: number;
  /** How many of them the API server has taken: each time it was set back since. */
  readonly written: number;
  readonly lastAt: number;
  /** None before this. */
  readonly notBefore: number;
}

export type Action =
  | { readonly type: "nothing" }
  /** Decide again in so many milliseconds. */
  | { readonly type: "wait"; readonly milliseconds: number }
  | { readonly type: "patch" }
  /** It stays, and is not ours to clear. */
  | { readonly type: "tell" };

export type Outcome = { readonly type: "written" } | Refusal;

export const NO_ATTEMPTS: Attempts = Object.freeze({ count: 0, written: 0, lastAt: -Infinity, notBefore: -Infinity });
/** How often it is looked whether the daemon is ready by now. */
export const LOOK_MILLISECONDS = 500;
/** Another program, such as the cloud's route controller, has so long before its absence is told. */
export const PATIENCE_MILLISECONDS = 30_000;
/** By then the API server's answer and what the watch says of it agree. */
export const UNSEEN_MILLISECONDS = 60_000;
/** After so many attempts in a row, some eight minutes when the server is away, there is one in {@link RARE_MILLISECONDS}. */
export const MOST_ATTEMPTS = 12;
export const RARE_MILLISECONDS = 600_000;
const FORGOTTEN_MILLISECONDS = 3 * RARE_MILLISECONDS;

/** What to do now about the own Node's condition NetworkUnavailable. */
export function decide({ now, unavailableSince, isReady, isOurs, attempts }: Situation): Action {
  if (unavailableSince === undefined) return { type: "nothing" };
  if (!isReady) return { type: "wait", milliseconds: LOOK_MILLISECONDS };
  const due = isOurs ? attempts.notBefore : unavailableSince + PATIENCE_MILLISECONDS;
  if (now < due) return { type: "wait", milliseconds: due - now };
  return { type: isOurs ? "patch" : "tell" };
}

/** @param random from 0 up to 1 */
export function attempted(earlier: Attempts, outcome: Outcome, now: number, random: number): Attempts {
  const row = now - earlier.lastAt > FORGOTTEN_MILLISECONDS ? NO_ATTEMPTS : earlier;
  const count = row.count + 1;
  const written = row.written + (outcome.type === "written" ? 1 : 0);
  return Object.freeze({ count, written, lastAt: now, notBefore: now + pause(count, outcome, random) });
}

/** What follows from the Node's saying that its network is available: when the condition comes back, it is tried soon. */
export function seenAvailable(attempts: Attempts, random: number): Attempts {
  const { count, lastAt, notBefore } = attempts;
  return Object.freeze({ ...attempts, notBefore: Math.min(notBefore, lastAt + again(count, undefined, random)) });
}

function pause(count: number, outcome: Outcome, random: number): number {
  if (outcome.type === "written") return Math.max(UNSEEN_MILLISECONDS, again(count, undefined, random));
  return outcome.type === "failed" ? again(count, outcome.retryAfter, random) : rarely(random);
}

function again(count: number, retryAfter: number | undefined, random: number): number {
  return count < MOST_ATTEMPTS ? pauseAfter(count, retryAfter, random) : rarely(random);
}

function rarely(random: number): number {
  return RARE_MILLISECONDS * (1 + random / 2);
}
