import type { Answer, Refusal } from "../api_write/refusal.ts";
import { isTaken, refusalOf } from "../api_write/refusal.ts";
import type { ClusterEvent } from "./event.ts";

/** What became of an Event. */
export type Outcome =
  | { readonly type: "created" }
  /** Somebody has told the same before. */
  | { readonly type: "known" }
  /** Forbidden holds for all of its namespace. */
  | Refusal;

/** Writes Events, one at a time. */
export interface EventWriter {
  /** Never rejects, and takes a bounded time. */
  create(event: ClusterEvent): Promise<Outcome>;
  /** Ends the request that is under way; what it comes to is of no use any more. */
  stop(): void;
}

/** What the API server's answer to a POST means. */
export function outcomeOf(answer: Answer): Outcome {
  const { status, words } = answer;
  if (isTaken(answer)) return { type: "created" };
  if (status === 409) return { type: "known" };
  const refusal = refusalOf(answer);
  // Admission says 403 too when a namespace is about to go, which is no matter of rights (NamespaceLifecycle).
  const isOfRights = refusal.type !== "forbidden" || !/being terminated/.test(words);
  return isOfRights ? refusal : { ...refusal, type: "rejected" };
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
