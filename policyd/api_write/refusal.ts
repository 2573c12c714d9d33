/** Why the API server has not carried out a request. Reasons are for people and contain no secrets. */
export type Refusal =
  /** The daemon is not permitted to make the request. */
  | { readonly type: "forbidden"; readonly reason: string }
  /** The request is invalid, and would be later too. */
  | { readonly type: "rejected"; readonly reason: string }
  | Failure;

/** The request may succeed later; `retryAfter` has the seconds that the server asks for, if any. */
export interface Failure {
  readonly type: "failed";
  readonly reason: string;
  readonly retryAfter: number | undefined;
}

/** An answer of the API server. */
export interface Answer {
  readonly type: "answered";
  /** The HTTP status. */
  readonly status: number;
  /** The message of its Status object; empty where there is none. */
  readonly words: string;
  /** Seconds that the server asks to wait, if any. */
  readonly retryAfter: number | undefined;
}

/** Returns whether the API server has carried out the request. */
export function isTaken({ status }: Answer): boolean {
  return status >= 200 && status < 300;
}

/** Returns the refusal that an unsuccessful answer means. */
export function refusalOf({ status, words, retryAfter }: Answer): Refusal {
  const reason = words === "" ? `${status}` : `${status} (${words})`;
  if (status === 403) return { type: "forbidden", reason };
  // Tokens get replaced, servers start, and others write the same object; any other fault of the request is permanent.
  const isTemporary = [401, 408, 409, 429].includes(status) || status >= 500;
  return isTemporary ? { type: "failed", reason, retryAfter } : { type: "rejected", reason };
}
