import type { ClientRequest, IncomingMessage } from "node:http";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import type { Cancel } from "../../../lib/clock.ts";
import type { AnswerHandler, ApiConnection } from "./connection.ts";
import { apiRequest, baseOf, isOfCertificates } from "./http_request.ts";
import type { Credentials } from "./kubeconfig.ts";

/** Milliseconds without a packet after which the kernel sends TCP keepalives; it gives up 10 s later. */
const KEEP_ALIVE = 15_000;

/** Sends requests to the API server from this thread's network namespace. */
export class HttpConnection implements ApiConnection {
  #name = "API server";
  readonly #credentials: () => Promise<Credentials>;

  /** @param credentials called before each request: tokens rotate and addresses change */
  constructor(credentials: () => Promise<Credentials>) {
    this.#credentials = credentials;
  }

  get name(): string {
    return this.#name;
  }

  get(path: string, handler: AnswerHandler): Cancel {
    let request: ClientRequest | undefined;
    let isOver = false;
    /** Calls the handler, unless the request was cancelled or the last call was made. */
    const tell = (action: () => void, isLast: boolean): void => {
      if (isOver) return;
      isOver = isLast;
      action();
    };
    const fail = (error: unknown): void => tell(() => handler.failed(reasonOf(error)), true);
    const onResponse = (response: IncomingMessage): void => {
      response.on("data", (chunk: Uint8Array) => tell(() => handler.data(chunk), false));
      response.on("end", () => tell(() => handler.ended(), true));
      response.on("error", fail);
      tell(() => handler.answered(response.statusCode ?? 0, retryAfterOf(response)), false);
    };
    const ask = async (): Promise<void> => {
      try {
        const credentials = await this.#credentials();
        if (isOver) return;
        request = this.#begin(credentials, path).on("response", onResponse).on("error", fail).end();
      } catch (error) {
        // The credentials are unavailable, or the token is not a valid header.
        fail(error);
      }
    };
    void ask();
    return () => {
      isOver = true;
      request?.destroy();
    };
  }

  #begin(credentials: Credentials, path: string): ClientRequest {
    this.#name = baseOf(credentials.server);
    return apiRequest(credentials, path, "drawbridge-policyd").on("socket", (socket) => {
      socket.setKeepAlive(true, KEEP_ALIVE);
    });
  }
}

/** Returns the Retry-After header in seconds; undefined where it is a date or missing. */
export function retryAfterOf({ headers }: IncomingMessage): number | undefined {
  const seconds = Number(headers["retry-after"] ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

/**
 * Returns the reason why a request failed, for people and without secrets.
 *
 * @throws anything that is not an Error, which is a bug
 */
export function reasonOf(error: unknown): string {
  if (error instanceof DrawbridgeError) return error.message;
  if (!(error instanceof Error)) throw error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const words = error.message === "" ? code : error.message;
  return isOfCertificates(code) ? `${code}: ${words}; expected a certificate of its authority` : words;
}
