import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { isIPv4, type Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, type Family, formatAddress } from "../../kernel/ip/address.ts";

/** The address and port where a server listens. */
export interface ListeningAddress {
  readonly family: Family;
  readonly address: Address;
  readonly port: number;
}

/** "10.0.0.1 30000" */
export function placeId({ address, port }: ListeningAddress): string {
  return `${formatAddress(address)} ${port}`;
}

/** A server that is listening. */
export interface Listening {
  /** Stops listening at once and cuts every connection. */
  close(): void;
}

/** An answer to a request. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A text, or its pieces, of which each is made when the client has read those before it. */
  readonly body: string | AsyncIterable<string>;
}

/**
 * Returns the answer to a request.
 *
 * @param isLoopback whether the request comes from the node itself, by an address that no other machine can have
 */
export type Answer = (path: string, isLoopback: boolean, method?: string) => HttpAnswer;

/** Answers HTTP requests at a place. */
export interface HttpListener {
  /**
   * Answers every request, whatever its method and its path unless `answer` evaluates them.
   *
   * @throws DrawbridgeError (by the promise) ERR_UNAVAILABLE when another program has the port or the node has no such
   * address
   */
  listen(place: ListeningAddress, answer: Answer): Promise<Listening>;
}

/** The most connections of one server. A further one closes the oldest: no client can keep a balancer's probe out. */
const MOST_CONNECTIONS = 64;
/** The most connections of all servers of a listener together. A further one closes the oldest, too. */
const MOST_TOGETHER = 1024;
/** The most requests of one connection: the last is answered with "Connection: close". */
const MOST_REQUESTS = 16;
/** The longest time for sending a request, and for an idle connection. */
const SLOWEST_MILLISECONDS = 5000;
/** An answer in pieces ends after this number of times the same: in Prometheus' default timeout of a scrape. */
const PIECES_FACTOR = 2;
const MOST_HEADER_BYTES = 8192;

/**
 * Listens in the network namespace of this thread.
 *
 * @param slowest milliseconds, for tests
 * @param mostTogether the most connections of all its servers together, for tests
 */
export function nodeHttpListener(
  slowest: number = SLOWEST_MILLISECONDS,
  mostTogether: number = MOST_TOGETHER,
): HttpListener {
  const all = new Set<Socket>();
  return {
    async listen(place, answer) {
      const server = createServer(
        {
          maxHeaderSize: MOST_HEADER_BYTES,
          requestTimeout: slowest,
          headersTimeout: slowest,
          connectionsCheckingInterval: slowest / 5,
          keepAliveTimeout: slowest,
        },
        oneRequestAtATime((request, response) =>
          reply(
            request,
            response,
            answer(request.url ?? "", isLoopback(request.socket.remoteAddress), request.method),
            slowest,
          ),
        ),
      );
      server.timeout = slowest;
      server.maxRequestsPerSocket = MOST_REQUESTS;
      const connections = new Set<Socket>();
      server.on("connection", (socket: Socket) => {
        admit(socket, connections, MOST_CONNECTIONS);
        admit(socket, all, mostTogether);
      });
      await bind(server, place);
      // For example out of descriptors: as connections end, the next one may be accepted again.
      server.on("error", () => {});
      return {
        close: () => {
          server.close();
          for (const socket of connections) socket.destroy();
        },
      };
    },
  };
}

/** Returns whether only the machine itself can have an address. It is undefined for a client that has gone. */
function isLoopback(address: string | undefined): boolean {
  return address === "::1" || (address !== undefined && isIPv4(address) && address.startsWith("127."));
}

/** Adds a connection to those that are open; the oldest is closed if there are as many as may be. */
function admit(socket: Socket, open: Set<Socket>, most: number): void {
  const [oldest] = open;
  if (open.size >= most && oldest !== undefined) {
    // It ends in a later turn of the event loop, and further connections may come in this one.
    open.delete(oldest);
    oldest.destroy();
  }
  open.add(socket);
  socket.on("close", () => open.delete(socket));
}

function reply(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: HttpAnswer,
  slowest: number,
): void {
  // The body is not read: the connection ends with the answer if there is one.
  const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
  response.shouldKeepAlive &&= !hasBody;
  if (typeof body === "string") {
    response.writeHead(status, { ...headers, "Content-Length": String(Buffer.byteLength(body)) });
    response.end(body);
    return;
  }
  response.writeHead(status, headers);
  // Where the client is slow or goes away, the answer is truncated, which a client notices.
  const signal = AbortSignal.timeout(PIECES_FACTOR * slowest);
  pipeline(Readable.from(body), response, { signal }).catch(() => {});
}

function bind(server: Server, { family, address, port }: ListeningAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const refused = (error: Error): void => reject(new DrawbridgeError("ERR_UNAVAILABLE", error.message));
    server.once("error", refused);
    // Without `ipv6Only` the kernel would hand IPv4 clients of "::" to the server that counts IPv6 endpoints.
    server.listen({ host: formatAddress(address), port, ipv6Only: family === 6 }, () => {
      server.off("error", refused);
      resolve();
    });
  });
}

/**
 * Returns a listener that answers one request of a connection at a time, and closes a connection on which another
 * request comes before the answer.
 *
 * Node parses all pipelined requests of one read, thousands in 64 KiB, and starts each before anything else gets a
 * turn. Clients that pipeline must be prepared for a closed connection and retry (RFC 9112, section 9.3.2).
 */
function oneRequestAtATime(answer: RequestListener): RequestListener {
  const busy = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    if (busy.has(socket)) return void socket.destroy();
    busy.add(socket);
    response.once("close", () => busy.delete(socket));
    return answer(request, response);
  };
}
