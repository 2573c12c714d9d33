import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";
import { reasonOf, retryAfterOf } from "../source/api/http_connection.ts";
import { apiRequest } from "../source/api/http_request.ts";
import type { Credentials } from "../source/api/kubeconfig.ts";
import { wordsOf } from "../source/api/watch_lines.ts";
import type { ApiWriter, Write } from "./api_writer.ts";
import type { Answer, Failure } from "./refusal.ts";

/** As whom the daemon writes. */
export const REPORTER = "drawbridge-policyd";
/** For a whole answer, with the credentials before it. */
export const ANSWER_MILLISECONDS = 10_000;
/** What was written comes back, and a Status has a sentence: of more nothing is kept. */
const LARGEST_ANSWER = 64 * 1024;

/** The API server over the network, of this thread's network namespace. */
export class HttpApiWriter implements ApiWriter {
  readonly #credentials: () => Promise<Credentials>;
  readonly #clock: Clock;
  readonly #stopped = new AbortController();

  /** @param credentials asked before each request: tokens rotate, addresses change */
  constructor(credentials: () => Promise<Credentials>, clock: Clock) {
    this.#credentials = credentials;
    this.#clock = clock;
  }

  async write(write: Write): Promise<Answer | Failure> {
    const late = new AbortController();
    const failed = (reason: string): Failure => ({ type: "failed", reason, retryAfter: undefined });
    const over = new Promise<Failure>((resolve) => {
      late.signal.addEventListener("abort", () => resolve(failed("no answer in time")));
    });
    const cancel = this.#clock.after(ANSWER_MILLISECONDS, () => late.abort());
    try {
      return await Promise.race([over, this.#send(write, AbortSignal.any([late.signal, this.#stopped.signal]))]);
    } catch (error) {
      return failed(reasonOf(error));
    } finally {
      cancel();
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #send({ method, path, body }: Write, signal: AbortSignal): Promise<Answer> {
    const credentials = await this.#credentials();
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      apiRequest(credentials, path, REPORTER, signal, method).on("response", resolve).on("error", reject).end(body);
    });
    const words = wordsIn(await textOf(response));
    return { type: "answered", status: response.statusCode ?? 0, words, retryAfter: retryAfterOf(response) };
  }
}

/** @throws Error for an answer that breaks off, and at the end of the time */
async function textOf(response: IncomingMessage): Promise<string> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of response) {
    const bytes = Buffer.from(piece);
    length += bytes.length;
    if (length <= LARGEST_ANSWER) pieces.push(bytes);
  }
  return Buffer.concat(pieces).toString("utf8");
}

/** Of a Status object; what proxies say is none. */
function wordsIn(text: string): string {
  try {
    return wordsOf(JSON.parse(text));
  } catch {
    return "";
  }
}
