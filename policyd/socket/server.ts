import type { Server, Socket } from "node:net";
import { createServer } from "node:net";
import type { Logger } from "../log/logger.ts";
import { serveConnection } from "./connection.ts";
import type { RequestHandlers } from "./handlers.ts";
import type { Listening, SocketMachine } from "./listener.ts";
import { listenExclusively } from "./listener.ts";

/** Each holds a descriptor and at most two messages. Further ones are closed, which the plugin takes for "try again". */
const MOST_CONNECTIONS = 512;

/** The daemon's socket while it is served. */
export interface ServedSocket {
  /**
   * Makes the socket and its lock again where somebody has removed one of them. Connections that are open go on.
   *
   * @returns whether they were missing
   * @throws DrawbridgeError as {@link listenExclusively}: ERR_UNAVAILABLE where another daemon has taken the place
   */
  restore(): Promise<boolean>;
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
  let server = newServer(connections, handlers, logger);
  let listening = await listen(server, socketPath, logger, machine);
  let isClosed = false;
  return {
    restore: async () => {
      if (isClosed || listening.isWhole()) return false;
      // Another daemon may have begun meanwhile: then it has the lock, and the socket is its own.
      listening.release();
      const next = newServer(connections, handlers, logger);
      const formerServer = server;
      // This takes its path away, which must not be the new socket's.
      const close = (): void => void formerServer.close();
      listening = await listen(next, socketPath, logger, machine, close);
      server = next;
      return true;
    },
    close: async () => {
      isClosed = true;
      const closed = new Promise<void>((resolve) => {
        server.close(() => {
          resolve();
        });
      });
      for (const socket of connections) socket.destroy();
      await closed;
      listening.release();
    },
  };
}

function newServer(connections: Set<Socket>, handlers: RequestHandlers, logger: Logger): Server {
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
  return server;
}

async function listen(
  server: Server,
  socketPath: string,
  logger: Logger,
  machine: SocketMachine,
  whenLocked: () => void = () => {},
): Promise<Listening> {
  const listening = await listenExclusively(server, socketPath, machine, whenLocked);
  server.on("error", (error) => {
    // Out of descriptors, for one: those there are end again, so the next connection may be taken.
    logger.error("cannot take a connection on the socket", { reason: error.message });
  });
  return listening;
}
