import type { ClusterEvent } from "./event.ts";

/** What became of an Event. Reasons are for people, without secrets. */
export type Outcome =
  | { readonly type: "created" }
  /** Somebody has told the same before. */
  | { readonly type: "known" }
  /** Whoever asks may not write Events in this namespace. */
  | { readonly type: "forbidden"; readonly reason: string }
  /** This one is not taken, and would not be later. */
  | { readonly type: "rejected"; readonly reason: string }
  /** It may be taken later, in so many seconds where the server says it. */
  | { readonly type: "failed"; readonly reason: string; readonly retryAfter: number | undefined };

/** Writes Events, one at a time. */
export interface EventWriter {
  /** Never rejects, and takes a bounded time. */
  create(event: ClusterEvent): Promise<Outcome>;
  /** Ends the request that is under way; what it comes to is of no use any more. */
  stop(): void;
}

/**
 * What the API server's answer to a POST means.
 *
 * @param status of HTTP
 * @param words of its Status object
 */
export function outcomeOf(status: number, words: string, retryAfter: number | undefined): Outcome {
  if (status >= 200 && status < 300) return { type: "created" };
  if (status === 409) return { type: "known" };
  const reason = words === "" ? `${status}` : `${status} (${words})`;
  // Admission says 403 too when a namespace is about to go, which is no matter of rights (NamespaceLifecycle).
  if (status === 403) return { type: /being terminated/.test(words) ? "rejected" : "forbidden", reason };
  // Tokens are replaced and servers start; what else is wrong with the request stays so.
  const isTemporary = status === 401 || status === 408 || status === 429 || status >= 500;
  return isTemporary ? { type: "failed", reason, retryAfter } : { type: "rejected", reason };
}

/** For tests: a writer whose outcomes are given one by one; all that is asked after them is created. */
export class FakeEventWriter implements EventWriter {
  /** What was asked, in order. */
  readonly asked: ClusterEvent[] = [];
  readonly outcomes: Outcome[] = [];
  isStopped = false;

  create(event: ClusterEvent): Promise<Outcome> {
    this.asked.push(event);
    return Promise.resolve(this.outcomes.shift() ?? { type: "created" });
  }

  stop(): void {
    this.isStopped = true;
  }
}
