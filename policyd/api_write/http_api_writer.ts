import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Clock } from "../lib/clock.ts";
import { reasonOf, retryAfterOf } from "../sources/api/connection/http_connection.ts";
import { apiRequest } from "../sources/api/connection/http_request.ts";
import type { Credentials } from "../sources/api/connection/kubeconfig.ts";
import { wordsIn } from "../sources/api/watch_lines.ts";
import type { ApiWriter, Failure, Write, WriteOutcome } from "./api_writer.ts";

/** The daemon's name as a writer. */
export const REPORTER = "drawbridge-policyd";
/** Timeout for a complete answer, including the credentials before it. */
export const ANSWER_MILLISECONDS = 10_000;
/** Bytes of an answer that are read: it repeats the written object, or is a Status with a sentence. */
const LARGEST_ANSWER = 64 * 1024;

/** Writes to the API server over the network, from this thread's network namespace. */
export class HttpApiWriter implements ApiWriter {
  readonly #credentials: () => Promise<Credentials>;
  readonly #clock: Clock;
  readonly #stopped = new AbortController();

  /** @param credentials called before each request, since tokens rotate and addresses change */
  constructor(credentials: () => Promise<Credentials>, clock: Clock) {
    this.#credentials = credentials;
    this.#clock = clock;
  }

  async write(write: Write): Promise<WriteOutcome> {
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

  async #send({ method, path, body }: Write, signal: AbortSignal): Promise<WriteOutcome> {
    const credentials = await this.#credentials();
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      apiRequest(credentials, path, REPORTER, signal, method).on("response", resolve).on("error", reject).end(body);
    });
    const words = wordsIn(await bodyOf(response));
    return outcomeOf(response.statusCode ?? 0, words, retryAfterOf(response));
  }
}

/**
 * Returns what an answer means.
 *
 * @param words the message of its Status object; empty where there is none
 */
function outcomeOf(status: number, words: string, retryAfter: number | undefined): WriteOutcome {
  if (status >= 200 && status < 300) return { type: "written", status };
  const reason = words === "" ? `${status}` : `${status} (${words})`;
  // Admission (a quota, a webhook, a terminating namespace) also answers 403; only the authorizer names the user.
  const isOfAdmission = / is forbidden: (?!User ")| denied the request/.test(words);
  if (status === 403 && !isOfAdmission) return { type: "forbidden", status, reason };
  // Tokens get replaced, servers start, and others write the same object; any other fault of the request is permanent.
  const isTemporary = [401, 408, 409, 429].includes(status) || status >= 500;
  return isTemporary ? { type: "failed", status, reason, retryAfter } : { type: "rejected", status, reason };
}

/** @throws Error for an answer that breaks off or exceeds the timeout */
async function bodyOf(response: IncomingMessage): Promise<readonly Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of response) {
    const bytes = Buffer.from(piece);
    length += bytes.length;
    if (length <= LARGEST_ANSWER) pieces.push(bytes);
  }
  return pieces;
}
