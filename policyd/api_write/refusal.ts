/** Why the API server has not done what it was asked. Reasons are for people, without secrets. */
export type Refusal =
  /** Whoever asks has no right to it. */
  | { readonly type: "forbidden"; readonly reason: string }
  /** It is not taken, and would not be later. */
  | { readonly type: "rejected"; readonly reason: string }
  | Failure;

/** It may be taken later, in so many seconds where the server says it. */
export interface Failure {
  readonly type: "failed";
  readonly reason: string;
  readonly retryAfter: number | undefined;
}

/** An answer of the API server. */
export interface Answer {
  readonly type: "answered";
  /** Of HTTP. */
  readonly status: number;
  /** Of its Status object; empty where there is none. */
  readonly words: string;
  /** In seconds, where it says it. */
  readonly retryAfter: number | undefined;
}

/** Whether the API server has done what it was asked. */
export function isTaken({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** What an answer means that is no success. */
export function refusalOf({ status, words, retryAfter }: Answer): Refusal {
  const reason = words === "" ? `${status}` : `${status} (${words})`;
  if (status === 403) return { type: "forbidden", reason };
  // Tokens are replaced, servers start, others write the same object; what else is wrong with the request stays so.
  const isTemporary = [401, 408, 409, 429].includes(status) || status >= 500;
  return isTemporary ? { type: "failed", reason, retryAfter } : { type: "rejected", reason };
}
