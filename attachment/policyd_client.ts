import { FrameReader, frame } from "./message_frame.ts";
import { parseReply, type PolicydReply, type PolicydRequest, requestToJson } from "./policyd_messages.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { Syscalls } from "../kernel/syscall/syscalls.ts";
import { UnixStream } from "../kernel/unix_stream.ts";
import { realWaiting, type Waiting } from "../kernel/waiting.ts";

/** A reply other than a refusal. */
export type PolicydAnswer = Exclude<PolicydReply, { readonly type: "refused" }>;

/** A request that was sent. */
export interface PolicydCall {
  /** Readable once a part of the reply has arrived. */
  readonly fd: number;
  /**
   * Blocks until the reply has arrived. May be called once.
   *
   * @throws DrawbridgeError ERR_UNAVAILABLE when policyd goes away or does not answer in time, ERR_PROTOCOL when its
   *   reply cannot be read
   */
  wait(): PolicydReply;
}

/**
 * Sends one request to policyd and returns at once, so that policyd works in parallel with the caller.
 *
 * @param socketPath usually `/run/drawbridge/policyd.sock`
 * @param milliseconds the longest this may take in all
 * @throws DrawbridgeError ERR_UNAVAILABLE when policyd is away
 */
export function callPolicyd(
  syscalls: Syscalls,
  socketPath: string,
  request: PolicydRequest,
  milliseconds: number,
  waiting: Waiting = realWaiting,
): PolicydCall {
  const message = frame(requestToJson(request));
  const stream = new UnixStream(syscalls, socketPath, milliseconds, waiting);
  try {
    stream.send(message);
  } catch (error) {
    stream.close();
    throw error;
  }
  return {
    fd: stream.fd,
    wait: () => {
      try {
        return parseReply(receiveMessage(stream, socketPath));
      } finally {
        stream.close();
      }
    },
  };
}

/**
 * Returns the reply unless it is a refusal.
 *
 * @throws DrawbridgeError for a refusal: its own code, ERR_UNAVAILABLE when policyd says to try again, ERR_PROTOCOL when
 *   it refuses the request for good
 */
export function answerOf(reply: PolicydReply): PolicydAnswer {
  if (reply.type !== "refused") return reply;
  const code = reply.code ?? (reply.isTemporary ? "ERR_UNAVAILABLE" : "ERR_PROTOCOL");
  throw new DrawbridgeError(code, `policyd: ${reply.message}`);
}

/** Sends a request and waits for the reply. @throws DrawbridgeError as {@link callPolicyd}, `wait`, {@link answerOf} */
export function askPolicyd(
  syscalls: Syscalls,
  socketPath: string,
  request: PolicydRequest,
  milliseconds: number,
): PolicydAnswer {
  return answerOf(callPolicyd(syscalls, socketPath, request, milliseconds, realWaiting).wait());
}

function receiveMessage(stream: UnixStream, socketPath: string): string {
  const reader = new FrameReader();
  for (;;) {
    const piece = stream.receive();
    if (piece.length === 0) {
      throw new DrawbridgeError("ERR_UNAVAILABLE", `policyd at ${socketPath} closed the connection without a reply`);
    }
    const [message] = reader.push(piece);
    if (message !== undefined) return message;
  }
}
