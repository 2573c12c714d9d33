import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { LabNamespace } from "../../lab/namespace.ts";

const PROGRAM = fileURLToPath(new URL("api_client_main.ts", import.meta.url));

/** The address of the API server and the client's credentials. */
export interface ClientSettings {
  readonly server: string;
  readonly token: string;
  /** The certificate of the server's authority, PEM. */
  readonly authority: string;
}

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly object?: object;
}

/** Requests that the client's process shall make. */
export interface Order {
  readonly id: number;
  readonly requests: readonly ApiRequest[];
  /** The largest number of requests at once; with 1 they are made in this order. */
  readonly atOnce: number;
}

/** The report of the client's process when all requests of an order are answered. */
export interface Outcome {
  readonly id: number;
  /** When the last request was answered, in milliseconds of CLOCK_MONOTONIC. */
  readonly answered: number;
  /** Each request that did not succeed, with the server's message. */
  readonly failures: readonly string[];
}

/** Makes requests to the API server from a process within a namespace, over connections that stay open. */
export class ApiClient {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve: (outcome: Outcome) => void; reject: (error: Error) => void }>();
  #ids = 0;

  constructor(namespace: LabNamespace, settings: ClientSettings) {
    this.#child = namespace.inside(() =>
      fork(PROGRAM, [JSON.stringify(settings)], { stdio: ["ignore", "inherit", "inherit", "ipc"] }),
    );
    this.#child.on("message", (outcome: Outcome) => {
      this.#waiting.get(outcome.id)?.resolve(outcome);
      this.#waiting.delete(outcome.id);
    });
    this.#child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the client of the API server has ended"));
      this.#waiting.clear();
    });
  }

  /** Makes requests, in order or several at once. */
  send(requests: readonly ApiRequest[], atOnce = 1): Promise<Outcome> {
    const id = ++this.#ids;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, requests, atOnce } satisfies Order);
    });
  }

  /** Does the same as {@link send}. @throws Error with the first failures */
  async must(requests: readonly ApiRequest[], atOnce = 1): Promise<Outcome> {
    const outcome = await this.send(requests, atOnce);
    if (outcome.failures.length === 0) return outcome;
    throw new Error(`${outcome.failures.length} requests failed: ${outcome.failures.slice(0, 3).join("; ")}`);
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}
