import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { isIPv4 } from "node:net";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { oneRequestAtATime } from "../../one_request.ts";
import type { HealthAnswer } from "./health_answer.ts";
import type { Place } from "./places.ts";

/** A server that is reached. */
export interface Listening {
  /** Stops listening at once and cuts every connection. */
  close(): void;
}

/**
 * The answer to a request.
 *
 * @param isLoopback whether it comes from the node itself, by an address that nobody else can have
 */
export type Answer = (path: string, isLoopback: boolean) => HealthAnswer;

/** What answers by HTTP at a place. */
export interface HttpListener {
  /**
   * Answers every request, whatever its method; whatever its path where `answer` does not ask for it.
   *
   * @throws DrawbridgeError (by the promise) ERR_UNAVAILABLE when the port is another's or the address is not the node's
   */
  listen(place: Place, answer: Answer): Promise<Listening>;
}

/** Of one server. When there is one more, the oldest goes: who holds many cannot keep a balancer's probe out. */
const MOST_CONNECTIONS = 64;
/** Of one connection: the last is answered with "Connection: close". */
const MOST_REQUESTS = 16;
/** A request is sent within this time, and a connection is idle no longer. */
const SLOWEST_MILLISECONDS = 5000;
const MOST_HEADER_BYTES = 8192;

/**
 * Listens in the network namespace of this thread.
 *
 * @param slowest milliseconds, for tests
 */
export function nodeHttpListener(slowest: number = SLOWEST_MILLISECONDS): HttpListener {
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
          reply(request, response, answer(request.url ?? "", isLoopback(request.socket.remoteAddress))),
        ),
      );
      server.timeout = slowest;
      server.maxRequestsPerSocket = MOST_REQUESTS;
      const connections = boundedConnections(server);
      await bind(server, place);
      // Out of descriptors, for one: connections end again, so the next may be taken.
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

/** Whom the kernel lets be only the machine itself. Undefined is somebody who has gone. */
function isLoopback(address: string | undefined): boolean {
  return address === "::1" || (address !== undefined && isIPv4(address) && address.startsWith("127."));
}

function boundedConnections(server: Server): ReadonlySet<Socket> {
  const connections = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    const [oldest] = connections;
    if (connections.size >= MOST_CONNECTIONS) oldest?.destroy();
    connections.add(socket);
    socket.on("close", () => connections.delete(socket));
  });
  return connections;
}

function reply(request: IncomingMessage, response: ServerResponse, { status, headers, body }: HealthAnswer): void {
  // What comes after the header is not read: the connection ends with the answer where there is any.
  const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
  response.shouldKeepAlive &&= !hasBody;
  response.writeHead(status, { ...headers, "Content-Length": String(Buffer.byteLength(body)) });
  response.end(body);
}

function bind(server: Server, { family, address, port }: Place): Promise<void> {
  return new Promise((resolve, reject) => {
    const refused = (error: Error): void => {
      reject(new DrawbridgeError("ERR_UNAVAILABLE", error.message));
    };
    server.once("error", refused);
    // Without `ipv6Only` the kernel would hand IPv4 clients of "::" to the server that counts IPv6 endpoints.
    server.listen({ host: formatAddress(address), port, ipv6Only: family === 6 }, () => {
      server.off("error", refused);
      resolve();
    });
  });
}
