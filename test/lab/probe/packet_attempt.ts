import { Errno, errnoText } from "../../../kernel/syscall/errno.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Poller } from "./poller.ts";
import type { Attempt, Verdict } from "./protocol.ts";
import type { ProbeSocket } from "./socket.ts";

/** An attempt of a connectionless protocol: one packet out, and one that returns the token. */
export interface PacketExchange {
  readonly socket: ProbeSocket;
  readonly to: Endpoint;
  readonly packet: Uint8Array;
  /** Whether a received packet is the answer to ours. */
  readonly isAnswer: (received: Uint8Array) => boolean;
}

/** Connects the socket, sends the packet, and checks the received packets. */
export function attemptByPacket(poller: Poller, exchange: PacketExchange, verdict: Verdict): Attempt {
  const { socket, to, packet, isAnswer } = exchange;
  const fail = (errno: number): void => verdict.failed(errnoText(errno));
  const send = (): void => {
    const result = socket.send(packet);
    // A full queue loses the packet, and lost packets are repeated.
    if (result < 0 && result !== -Errno.EAGAIN && result !== -Errno.ENOBUFS) fail(-result);
  };
  poller.watch(socket, {
    onReadable: () => {
      for (const next of socket.drain()) {
        if (next.kind === "refused") fail(next.errno);
        else if (next.kind === "data" && isAnswer(next.data)) verdict.reached();
      }
    },
  });
  const result = socket.connect(to);
  if (result < 0) fail(-result);
  else send();
  return { repeat: send, close: () => poller.drop(socket) };
}
