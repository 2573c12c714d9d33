/** What a server does instead of answering. */
export type AnswerFault =
  | { readonly type: "status"; readonly status: number; readonly retryAfter?: string }
  /** It takes the request and says nothing. */
  | { readonly type: "hang" }
  /** The connection is reset. */
  | { readonly type: "reset" };

/** What becomes of an answer that has begun, in the middle of a list or behind an event. */
export type StreamFault =
  /** The rest is missing, and the connection ends in order, or is reset. */
  | { readonly type: "truncate"; readonly isReset: boolean }
  /** Something that is no JSON. */
  | { readonly type: "garbage" }
  /** Half-open: no end, and nothing any more. */
  | { readonly type: "silence" };

/** What befalls watches alone. */
export type WatchFault =
  | StreamFault
  | { readonly type: "close" }
  /** The last event once more. */
  | { readonly type: "duplicate" }
  /** An ERROR event, such as 410, and the end. */
  | { readonly type: "error"; readonly status: number };

/** A fault for requests to come. */
export interface PlannedFault {
  readonly on: "list" | "watch" | "create" | "patch" | "any";
  /** By the path of the list, or of what is made; undefined for all. */
  readonly path?: string;
  /** How many requests it befalls. */
  readonly count: number;
  readonly fault: AnswerFault | StreamFault;
}

export function isAnswerFault(fault: AnswerFault | StreamFault): fault is AnswerFault {
  return fault.type === "status" || fault.type === "hang" || fault.type === "reset";
}
