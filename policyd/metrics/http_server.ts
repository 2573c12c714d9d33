import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Logger } from "../log/logger.ts";
import { oneRequestAtATime } from "../lib/one_request.ts";

/** Where the server listens. */
export interface ListenAddress {
  readonly address: Address;
  readonly port: number;
}

export interface MetricsServerParts {
  readonly listen: ListenAddress;
  readonly contentType: string;
  /** Returns the text in pieces, built again for each request. */
  readonly page: () => AsyncIterable<string>;
  readonly logger: Logger;
  readonly clock: Clock;
}

const PATH = "/metrics";
/** Further connections are closed as soon as they are accepted. */
const MOST_CONNECTIONS = 16;
/** Prometheus' default scrape timeout. Each connection is one request, and is closed after this time in any case. */
const LONGEST_MILLISECONDS = 10_000;
const MOST_HEADER_BYTES = 8192;
const RETRY_MILLISECONDS = 5000;

/**
 * Serves the metrics by HTTP in the network namespace of this thread. While another program has the port, it retries;
 * no other part of the daemon depends on it.
 */
export class MetricsServer {
  readonly #parts: MetricsServerParts;
  readonly #server: Server;
  #retry: Cancel | undefined;
  #isRefused = false;
  #isStopped = false;

  constructor(parts: MetricsServerParts) {
    this.#parts = parts;
    const limits = {
      maxHeaderSize: MOST_HEADER_BYTES,
      headersTimeout: LONGEST_MILLISECONDS,
      requestTimeout: LONGEST_MILLISECONDS,
    };
    this.#server = createServer(
      limits,
      oneRequestAtATime((request, response) => void this.#answer(request, response)),
    );
    this.#server.maxConnections = MOST_CONNECTIONS;
    this.#server.on("connection", (socket: Socket) => {
      const cancel = parts.clock.after(LONGEST_MILLISECONDS, () => socket.destroy());
      socket.once("close", cancel);
    });
    this.#server.on("error", (error) => this.#refused(error));
    this.#server.on("listening", () => this.#listening());
  }

  start(): void {
    const { address, port } = this.#parts.listen;
    this.#server.listen({ host: formatAddress(address), port, exclusive: true });
  }

  /** The port it listens on; undefined while it does not listen. */
  get port(): number | undefined {
    const bound: AddressInfo | string | null = this.#server.address();
    return bound === null || typeof bound === "string" ? undefined : bound.port;
  }

  /** Stops listening at once and cuts every connection. */
  stop(): void {
    this.#isStopped = true;
    this.#retry?.();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #listening(): void {
    const { logger } = this.#parts;
    if (this.#isStopped) return void this.#server.close();
    if (this.#isRefused) logger.info("metrics are served after all", this.#where());
    this.#isRefused = false;
  }

  #refused(error: Error): void {
    const { logger, clock } = this.#parts;
    // A listening server also reports errors, such as running out of descriptors; it recovers as connections end.
    if (this.#server.listening || this.#isStopped) return;
    if (!this.#isRefused) {
      logger.warn("metrics are not served; it is tried again", { ...this.#where(), error: error.message });
    }
    this.#isRefused = true;
    this.#retry = clock.after(RETRY_MILLISECONDS, () => this.start());
  }

  #where(): { readonly address: string; readonly port: number } {
    const { address, port } = this.#parts.listen;
    return { address: formatAddress(address), port };
  }

  async #answer({ method, url = "" }: IncomingMessage, response: ServerResponse): Promise<void> {
    response.shouldKeepAlive = false;
    const [path] = url.split("?", 1);
    if (path !== PATH) return plain(response, 404, `expected ${PATH}\n`);
    if (method !== "GET") return plain(response.setHeader("Allow", "GET"), 405, "expected GET\n");
    try {
      response.writeHead(200, { "Content-Type": this.#parts.contentType });
      await pipeline(Readable.from(this.#parts.page()), response);
    } catch (error) {
      // Usually the client went away. The response is truncated, which a client notices.
      this.#parts.logger.debug("metrics response was not completed", {
        error: error instanceof Error ? error.message : String(error),
      });
    }
  }
}

function plain(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" });
  response.end(text);
}
