import type { WriteMethod } from "../source/api/http_request.ts";
import type { Answer, Failure } from "./refusal.ts";

/** What the API server is asked to write. */
export interface Write {
  readonly method: WriteMethod;
  readonly path: string;
  /** JSON; of a PATCH a strategic merge patch. */
  readonly body: string;
}

/** Has the API server write something. */
export interface ApiWriter {
  /** Never rejects, and takes a bounded time. */
  write(write: Write): Promise<Answer | Failure>;
  /** Ends what is under way; what it comes to is of no use any more. */
  stop(): void;
}

/** For tests: a writer whose answers are given one by one; all that is asked after them is done. */
export class FakeApiWriter implements ApiWriter {
  /** What was asked, in order. */
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
