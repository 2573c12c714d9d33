import type { WriteMethod } from "../sources/api/connection/http_request.ts";
import type { Answer, Failure } from "./refusal.ts";

/** A write request to the API server. */
export interface Write {
  readonly method: WriteMethod;
  readonly path: string;
  /** JSON; for a PATCH, a strategic merge patch. */
  readonly body: string;
}

/** Sends write requests to the API server. */
export interface ApiWriter {
  /** Sends a request. Never rejects, and takes a bounded time. */
  write(write: Write): Promise<Answer | Failure>;
  /** Aborts the request in progress; its result no longer matters. */
  stop(): void;
}
