import type { ClientRequest, IncomingMessage } from "node:http";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Cancel } from "../../clock.ts";
import type { AnswerHandler, ApiConnection } from "./connection.ts";
import { apiRequest, baseOf, isOfCertificates } from "./http_request.ts";
import type { Credentials } from "./kubeconfig.ts";

/** After so long without a packet the kernel asks whether the other end is still there, and gives up 10 s later. */
const KEEP_ALIVE = 15_000;

/** The API server over the network, of this thread's network namespace. */
export class HttpConnection implements ApiConnection {
  #name = "API server";
  readonly #credentials: () => Promise<Credentials>;

  /** @param credentials asked before each request: tokens rotate, addresses change */
  constructor(credentials: () => Promise<Credentials>) {
    this.#credentials = credentials;
  }

  get name(): string {
    return this.#name;
  }

  get(path: string, handler: AnswerHandler): Cancel {
    let request: ClientRequest | undefined;
    let isOver = false;
    /** Tells, unless it was cancelled or the last has been told. */
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
        // Credentials that cannot be had, or a token that is no header.
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

/** In seconds; undefined where it is a date or missing. */
export function retryAfterOf({ headers }: IncomingMessage): number | undefined {
  const seconds = Number(headers["retry-after"] ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

/**
 * Why a request failed, for people and without its secrets.
 *
 * @throws what is neither of our family nor an error of the system: it is a bug
 */
export function reasonOf(error: unknown): string {
  if (error instanceof DrawbridgeError) return error.message;
  if (!(error instanceof Error)) throw error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const words = error.message === "" ? code : error.message;
  return isOfCertificates(code) ? `${code}: ${words}; expected a certificate of its authority` : words;
}
