import type { WriteMethod } from "../objects/api/connection/http_request.ts";
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

/** For tests: a writer with prepared answers; requests beyond these succeed. */
export class FakeApiWriter implements ApiWriter {
  /** The requests, in order. */
  readonly asked: Write[] = [];
  readonly answers: (Answer | Failure | Promise<Answer>)[] = [];
  isStopped = false;

  async write(write: Write): Promise<Answer | Failure> {
    this.asked.push(write);
    return this.answers.shift() ?? { type: "answered", status: 200, words: "", retryAfter: undefined };
  }

  stop(): void {
    this.isStopped = true;
  }
}
