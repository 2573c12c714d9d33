import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../clock.ts";
import { reasonOf, retryAfterOf } from "../source/api/http_connection.ts";
import { apiRequest } from "../source/api/http_request.ts";
import type { Credentials } from "../source/api/kubeconfig.ts";
import { wordsOf } from "../source/api/watch_lines.ts";
import type { ClusterEvent } from "./event.ts";
import { REPORTER } from "./event.ts";
import type { EventWriter, Outcome } from "./writer.ts";
import { outcomeOf } from "./writer.ts";

/** For a whole answer, with the credentials before it. */
export const ANSWER_MILLISECONDS = 10_000;
/** An Event that was made comes back, and a Status has a sentence: of more nothing is kept. */
const LARGEST_ANSWER = 64 * 1024;

/** The API server over the network, of this thread's network namespace. */
export class HttpEventWriter implements EventWriter {
  readonly #credentials: () => Promise<Credentials>;
  readonly #clock: Clock;
  readonly #stopped = new AbortController();

  /** @param credentials asked before each request: tokens rotate, addresses change */
  constructor(credentials: () => Promise<Credentials>, clock: Clock) {
    this.#credentials = credentials;
    this.#clock = clock;
  }

  async create(event: ClusterEvent): Promise<Outcome> {
    const late = new AbortController();
    const failed = (reason: string): Outcome => ({ type: "failed", reason, retryAfter: undefined });
    const over = new Promise<Outcome>((resolve) => {
      late.signal.addEventListener("abort", () => resolve(failed("no answer in time")));
    });
    const cancel = this.#clock.after(ANSWER_MILLISECONDS, () => late.abort());
    try {
      return await Promise.race([over, this.#post(event, AbortSignal.any([late.signal, this.#stopped.signal]))]);
    } catch (error) {
      return failed(reasonOf(error));
    } finally {
      cancel();
    }
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #post({ namespace, body }: ClusterEvent, signal: AbortSignal): Promise<Outcome> {
    const credentials = await this.#credentials();
    const path = `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      apiRequest(credentials, path, REPORTER, signal, "POST").on("response", resolve).on("error", reject).end(body);
    });
    const words = wordsIn(await textOf(response));
    return outcomeOf(response.statusCode ?? 0, words, retryAfterOf(response));
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
