import { createServer, type Server, type Socket } from "node:net";
import type { Logger } from "../log/logger.ts";
import { serveConnection } from "./connection.ts";
import type { RequestHandlers } from "./handlers.ts";
import { listenExclusively, type Listening, type SocketMachine } from "./listener.ts";

/** Each holds a descriptor and at most two messages. Further ones are closed, after which the plugin retries. */
const MOST_CONNECTIONS = 512;

/** The daemon's socket while it is served. */
export interface ServedSocket {
  /**
   * Creates the socket and its lock again where one of them has been removed. Open connections continue.
   *
   * @returns whether one was missing
   * @throws DrawbridgeError as {@link listenExclusively}: ERR_UNAVAILABLE where another daemon has taken its place
   */
  restore(): Promise<boolean>;
  /** Ends all connections, removes the socket and lets another daemon take its place. */
  close(): Promise<void>;
}

/**
 * Serves the daemon's socket.
 *
 * @returns a promise that resolves when clients can connect
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
      // Another daemon may have started meanwhile: it then has the lock and the socket.
      listening.release();
      const next = newServer(connections, handlers, logger);
      const formerServer = server;
      // Closing the former server removes its path, so it must happen before the new socket exists.
      const close = (): void => void formerServer.close();
      listening = await listen(next, socketPath, logger, machine, close);
      server = next;
      return true;
    },
    close: async () => {
      isClosed = true;
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const socket of connections) socket.destroy();
      await closed;
      listening.release();
    },
  };
}

function newServer(connections: Set<Socket>, handlers: RequestHandlers, logger: Logger): Server {
  // Half open: a client may close its side after its last request and still gets the replies.
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.add(socket);
    socket.on("close", () => connections.delete(socket));
    serveConnection(socket, handlers, logger);
  });
  server.maxConnections = MOST_CONNECTIONS;
  server.on("drop", () => logger.warn("closed a connection on the socket: too many", { most: MOST_CONNECTIONS }));
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
    // For example, the process is out of descriptors; these become free again, so later connections may succeed.
    logger.error("cannot take a connection on the socket", { reason: error.message });
  });
  return listening;
}
