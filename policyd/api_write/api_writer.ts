import type { WriteMethod } from "../sources/api/connection/http_request.ts";

/** A write request to the API server. */
export interface Write {
  readonly method: WriteMethod;
  readonly path: string;
  /** JSON; for a PATCH, a strategic merge patch. */
  readonly body: string;
}

/** The outcome of a write request. */
export type WriteOutcome = { readonly type: "written"; readonly status?: number } | Refusal;

/** Why the API server has not carried out a request. Reasons are for people and contain no secrets. */
export type Refusal =
  /** The daemon is not permitted to make the request. */
  | { readonly type: "forbidden"; readonly status?: number; readonly reason: string }
  /** The request is invalid, and would be later too. */
  | { readonly type: "rejected"; readonly status?: number; readonly reason: string }
  | Failure;

/** The request may succeed later; `retryAfter` has the seconds that the server asks for, if any. */
export interface Failure {
  readonly type: "failed";
  /** The HTTP status; undefined without an answer. */
  readonly status?: number;
  readonly reason: string;
  readonly retryAfter: number | undefined;
}

/** Sends write requests to the API server. */
export interface ApiWriter {
  /** Sends a request. Never rejects, and takes a bounded time. */
  write(write: Write): Promise<WriteOutcome>;
  /** Aborts the request in progress; its result no longer matters. */
  stop(): void;
}

const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

/**
 * Returns the milliseconds before the next attempt: doubled with each attempt in a row, at least what the server asks
 * for, at most a minute, plus up to a half more so that nodes do not retry all at once.
 *
 * @param attempts number in a row, including the last
 * @param retryAfter seconds
 * @param random from 0 up to 1
 */
export function pauseAfter(attempts: number, retryAfter: number | undefined, random: number): number {
  const doubled = Math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ** (attempts - 1));
  const asked = Math.min(LONGEST_PAUSE, (retryAfter ?? 0) * 1000);
  return Math.max(doubled, asked) * (1 + random / 2);
}
