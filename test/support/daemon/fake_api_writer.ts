import type { ApiWriter, Write } from "../../../policyd/api_write/api_writer.ts";
import type { Answer, Failure } from "../../../policyd/api_write/refusal.ts";

/** A writer with prepared answers; requests beyond these succeed. */
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
