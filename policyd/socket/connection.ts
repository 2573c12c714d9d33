import type { Socket } from "node:net";
import { FrameReader, frame } from "../../ipam/message_frame.ts";
import type { PolicydReply } from "../../ipam/policyd_messages.ts";
import { parseRequest, replyToJson } from "../../ipam/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Logger } from "../log/logger.ts";
import type { RequestHandlers } from "./handlers.ts";
import { answer, refusal } from "./handlers.ts";

/**
 * How long a connection may be silent while we wait for it: for the rest of a message, for the next one, or for it to
 * take a reply. A handler may take longer.
 */
const IDLE_MILLISECONDS = 30_000;

/**
 * Serves one connection until it ends.
 *
 * Requests are answered one after the other: while one is handled or its reply is not taken, nothing more is read. So a
 * client holds no more of our memory than what one read brings and one reply, whatever it sends or leaves unread, and all
 * others have a turn between two of its requests. A request that is none is refused; bytes that cannot be taken apart into
 * messages also end the connection.
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
    // The callback comes when the kernel has taken the reply: at once, as a rule, and thousands of requests may have come by one read.
    if (!socket.writableEnded) socket.write(message, () => void setImmediate(next));
  };

  socket.setTimeout(idleMilliseconds);
  socket.on("timeout", () => socket.destroy());
  // A client that goes away in the middle of anything is no event.
  socket.on("error", () => socket.destroy());
  // The client has said all it wants to; what it asked for is answered first.
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
      // What else comes is not read: it might never end.
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

/** @throws what is not of our family: it is a bug, and ends the daemon */
function refused(error: unknown, logger: Logger): PolicydReply {
  if (!(error instanceof DrawbridgeError)) throw error;
  logger.warn("refused a request on the socket", { reason: error.message });
  return refusal(error);
}
