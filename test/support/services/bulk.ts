import { familyOf } from "../../../kernel/ip/address.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import type { Poller } from "../../lab/probe/poller.ts";
import type { Located } from "../../lab/probe/protocol.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";

/** Sends back everything that arrives over a TCP connection. */
export function bulkServer(poller: Poller, at: Located): void {
  const listener = ProbeSocket.open(at.namespace, familyOf(at.address), SocketType.STREAM);
  listener.bind(at);
  listener.listen();
  poller.watch(listener, {
    onReadable: () => {
      const accepted = listener.accept();
      if (accepted !== undefined) echo(poller, accepted.socket);
    },
  });
}

function echo(poller: Poller, socket: ProbeSocket): void {
  let waiting: Uint8Array = new Uint8Array();
  const watcher = {
    onReadable: (): void => {
      const next = socket.receive();
      if (next.kind === "nothing") return;
      if (next.kind !== "data") return poller.drop(socket);
      waiting = Buffer.concat([waiting, next.data]);
      flush();
    },
  };
  const flush = (): void => {
    const sent = socket.send(waiting);
    if (sent > 0) waiting = waiting.subarray(sent);
    poller.watch(socket, waiting.length > 0 ? { ...watcher, onWritable: flush } : watcher);
  };
  poller.watch(socket, watcher);
}

/**
 * Sends bytes over one connection and reads what comes back.
 *
 * @returns the number of bytes that have come back in time
 */
export async function exchangeBulk(
  poller: Poller,
  from: LabNamespace,
  to: Endpoint,
  bytes: number,
  milliseconds = 10_000,
): Promise<number> {
  const socket = ProbeSocket.open(from, familyOf(to.address), SocketType.STREAM);
  const state = { toSend: bytes, received: 0, hasEnded: false };
  const onReadable = (): void => {
    const next = socket.receive();
    if (next.kind === "data") state.received += next.data.length;
    else if (next.kind !== "nothing") state.hasEnded = true;
  };
  const onWritable = (): void => {
    const sent = socket.send(new Uint8Array(state.toSend));
    if (sent > 0) state.toSend -= sent;
    if (state.toSend === 0) poller.watch(socket, { onReadable });
  };
  poller.watch(socket, { onReadable, onWritable });
  const result = socket.connect(to);
  if (result < 0 && result !== -Errno.EINPROGRESS) state.hasEnded = true;
  const end = performance.now() + milliseconds;
  await poller.runUntil(() => state.hasEnded || state.received >= bytes || performance.now() > end);
  poller.drop(socket);
  return state.received;
}
