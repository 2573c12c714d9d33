import { type Answer, isTaken, type Refusal, refusalOf } from "../api_write/refusal.ts";
import type { ClusterEvent } from "./event.ts";

/** The result of writing an Event. */
export type Outcome =
  | { readonly type: "created" }
  /** The same Event exists already. */
  | { readonly type: "known" }
  /** "forbidden" applies to the whole namespace of the Event. */
  | Refusal;

/** Writes Events, one at a time. */
export interface EventWriter {
  /** Never rejects, and takes a bounded time. */
  create(event: ClusterEvent): Promise<Outcome>;
  /** Aborts the request in progress; its result no longer matters. */
  stop(): void;
}

/** Returns the outcome that the API server's answer to a POST means. */
export function outcomeOf(answer: Answer): Outcome {
  const { status, words } = answer;
  if (isTaken(answer)) return { type: "created" };
  if (status === 409) return { type: "known" };
  const refusal = refusalOf(answer);
  // Admission also answers 403 for a terminating namespace, which does not concern permissions (NamespaceLifecycle).
  const isOfRights = refusal.type !== "forbidden" || !/being terminated/.test(words);
  return isOfRights ? refusal : { ...refusal, type: "rejected" };
}
