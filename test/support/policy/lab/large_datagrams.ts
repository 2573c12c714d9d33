import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { Poller } from "../../../lab/probe/poller.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";

const REPEAT_MILLISECONDS = 100;
const PATIENCE_MILLISECONDS = 15_000;

/**
 * Sends a datagram again and again until a responder's answer of the same size comes back: the first ones are too large
 * for the path, and the sender must learn that.
 *
 * @returns whether the answer came
 */
export async function largeDatagram(
  poller: Poller,
  from: LabNamespace,
  to: { readonly address: Address; readonly port: number },
  bytes: number,
): Promise<boolean> {
  const socket = ProbeSocket.open(from, familyOf(to.address), SocketType.DATAGRAM);
  const message = new Uint8Array(bytes).fill(bytes);
  let isAnswered = false;
  poller.watch(socket, {
    onReadable: () => {
      // The kernel reports a packet that is too large by a refusal; the next one is smaller.
      for (const next of socket.drain()) isAnswered ||= next.kind === "data" && next.data.length === bytes;
    },
  });
  try {
    socket.connect(to);
    const start = performance.now();
    let sentAt = -Infinity;
    await poller.runUntil(() => {
      const now = performance.now();
      if (now - sentAt > REPEAT_MILLISECONDS) {
        socket.send(message);
        sentAt = now;
      }
      return isAnswered || now - start > PATIENCE_MILLISECONDS;
    });
  } finally {
    poller.drop(socket);
  }
  return isAnswered;
}
