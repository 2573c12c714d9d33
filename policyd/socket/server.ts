import type { Socket } from "node:net";
import { createServer } from "node:net";
import type { Logger } from "../log/logger.ts";
import { serveConnection } from "./connection.ts";
import type { RequestHandlers } from "./handlers.ts";
import type { SocketMachine } from "./listener.ts";
import { listenExclusively } from "./listener.ts";

/** Each holds a descriptor and at most two messages. Further ones are closed, which the plugin takes for "try again". */
const MOST_CONNECTIONS = 512;

/** The daemon's socket while it is served. */
export interface ServedSocket {
  /** Ends all connections, removes the socket and lets another daemon take its place. */
  close(): Promise<void>;
}

/**
 * Serves the daemon's socket.
 *
 * @returns when it can be connected to
 * @throws DrawbridgeError as {@link listenExclusively}
 */
export async function serveSocket(
  socketPath: string,
  handlers: RequestHandlers,
  logger: Logger,
  machine: SocketMachine,
): Promise<ServedSocket> {
  const connections = new Set<Socket>();
  // Half open: a client may end its side after its last request and still gets the replies.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.add(socket);
    socket.on("close", () => connections.delete(socket));
    serveConnection(socket, handlers, logger);
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.on("drop", () => {
    logger.warn("closed a connection on the socket: too many", { most: MOST_CONNECTIONS });
  });
  const release = await listenExclusively(server, socketPath, machine);
  server.on("error", (error) => {
    // Out of descriptors, for one: those there are end again, so the next connection may be taken.
    logger.error("cannot take a connection on the socket", { reason: error.message });
  });
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      for (const socket of connections) socket.destroy();
      await closed;
      release();
    },
  };
}
