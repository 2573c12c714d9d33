import type { Cancel } from "../../clock.ts";

/** Who hears what comes of a request: an answer, then data, then its end; or a failure at any time, which is the last. */
export interface AnswerHandler {
  answered(status: number, retryAfter: number | undefined): void;
  data(chunk: Uint8Array): void;
  ended(): void;
  /** @param reason for people, without secrets and the same each time */
  failed(reason: string): void;
}

/** The API server, as it can be asked. */
export interface ApiConnection {
  /** Its address as messages have it, without a user or a password; what it was last. */
  readonly name: string;
  /**
   * Begins a GET request.
   *
   * @param path with its query, below the server's address
   * @returns what ends it: after that nothing is told any more
   */
  get(path: string, handler: AnswerHandler): Cancel;
}
