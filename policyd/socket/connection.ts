import type { Socket } from "node:net";
import { FrameReader, frame } from "../../attachment/message_frame.ts";
import { parseRequest, type PolicydReply, replyToJson } from "../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Logger } from "../log/logger.ts";
import { answer, refusal, type RequestHandlers } from "./handlers.ts";

/**
 * How long a connection may be silent while the daemon waits for the rest of a message, the next message, or the client
 * to take a reply. A handler may take longer.
 */
const IDLE_MILLISECONDS = 30_000;

/**
 * Serves one connection until it ends.
 *
 * Requests are answered one after the other: nothing more is read while one is handled or its reply is not taken. So a
 * client occupies no more memory than one read and one reply, and other connections get a turn between two of its
 * requests. An invalid request is refused; bytes that cannot be split into messages also end the connection.
 *
 * @param idleMilliseconds for tests
 */
export function serveConnection(
  socket: Socket,
  handlers: RequestHandlers,
  logger: Logger,
  idleMilliseconds: number = IDLE_MILLISECONDS,
): void {
  const reader = new FrameReader();
  const waiting: string[] = [];
  let isBusy = false;
  let hasEnded = false;

  const next = (): void => {
    const text = waiting.shift();
    isBusy = text !== undefined;
    if (text === undefined) {
      if (hasEnded) socket.end();
      else socket.resume();
      return;
    }
    socket.pause();
    socket.setTimeout(0);
    void reply(text);
  };

  const reply = async (text: string): Promise<void> => {
    const message = frame(replyToJson(await replyTo(text, handlers, logger)));
    socket.setTimeout(idleMilliseconds);
    // The callback runs when the kernel has taken the reply, usually at once, and one read may have brought thousands
    // of requests: setImmediate lets other work run in between.
    if (!socket.writableEnded) socket.write(message, () => void setImmediate(next));
  };

  socket.setTimeout(idleMilliseconds);
  socket.on("timeout", () => socket.destroy());
  // A client may disconnect at any moment; that is not an error.
  socket.on("error", () => socket.destroy());
  // The client has sent everything; its open requests are answered first.
  socket.on("end", () => {
    hasEnded = true;
    if (!isBusy) socket.end();
  });
  socket.on("data", (piece: Uint8Array) => {
    if (socket.writableEnded) return;
    try {
      waiting.push(...reader.push(piece));
    } catch (error) {
      waiting.length = 0;
      // Further data is not read, since it might never end.
      socket.end(frame(replyToJson(refused(error, logger))), () => socket.destroy());
      return;
    }
    if (!isBusy) next();
  });
}

async function replyTo(text: string, handlers: RequestHandlers, logger: Logger): Promise<PolicydReply> {
  try {
    return await answer(parseRequest(text), handlers);
  } catch (error) {
    return refused(error, logger);
  }
}

/** @throws errors other than DrawbridgeError, which are bugs and end the daemon */
function refused(error: unknown, logger: Logger): PolicydReply {
  if (!(error instanceof DrawbridgeError)) throw error;
  logger.warn("refused a request on the socket", { reason: error.message });
  return refusal(error);
}
