/** A fault in place of an answer. */
export type AnswerFault =
  | { readonly type: "status"; readonly status: number; readonly retryAfter?: string }
  /** It accepts the request and does not answer. */
  | { readonly type: "hang" }
  /** The connection is reset. */
  | { readonly type: "reset" };

/** A fault of an answer that has begun, in the middle of a list or after an event. */
export type StreamFault =
  /** The rest is missing, and the connection ends in order, or is reset. */
  | { readonly type: "truncate"; readonly isReset: boolean }
  /** A text that is not JSON. */
  | { readonly type: "garbage" }
  /** A half-open connection: no end, and no further data but, in a watch, empty lines of a proxy. */
  | { readonly type: "silence"; readonly hasProxy?: boolean };

/** A fault of watches only. */
export type WatchFault =
  | StreamFault
  | { readonly type: "close" }
  /** The last event once more. */
  | { readonly type: "duplicate" }
  /** An ERROR event, such as 410, after which the watch ends. */
  | { readonly type: "error"; readonly status: number };

/** A fault for future requests. */
export interface PlannedFault {
  readonly on: "list" | "watch" | "create" | "patch" | "any";
  /** The path of the list or of the created object; undefined for all. */
  readonly path?: string;
  /** The number of requests with this fault. */
  readonly count: number;
  readonly fault: AnswerFault | StreamFault;
}

export function isAnswerFault(fault: AnswerFault | StreamFault): fault is AnswerFault {
  return fault.type === "status" || fault.type === "hang" || fault.type === "reset";
}
