import type { Cancel } from "../../../lib/clock.ts";

/** Receives the answer to a request, then its data, then its end; or a failure at any time, which is the last call. */
export interface AnswerHandler {
  answered(status: number, retryAfter: number | undefined): void;
  data(chunk: Uint8Array): void;
  ended(): void;
  /** @param reason for people, without secrets, the same text for the same failure */
  failed(reason: string): void;
}

/** Sends requests to the API server. */
export interface ApiConnection {
  /** The server's last known address for messages, without a user or a password. */
  readonly name: string;
  /**
   * Begins a GET request.
   *
   * @param path with its query, below the server's address
   * @returns a function that cancels the request; after that the handler is not called any more
   */
  get(path: string, handler: AnswerHandler): Cancel;
}
