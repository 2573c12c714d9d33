import { Buffer } from "node:buffer";
import { littleEndian } from "../../kernel/byte_order.ts";
import { familyOf, parseAddress } from "../../kernel/ip/address.ts";
import { Errno, errnoName } from "../../kernel/syscall/errno.ts";
import { POLLFD_SIZE } from "../../kernel/syscall/poll_calls.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";

/** An answer as the client received it; without an answer the status is 0 and the body is the error's code. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Events of poll(2). */
const [POLLIN, POLLOUT] = [1, 4];
/** Another program that has the port may accept a connection and never answer. */
const PATIENCE_MILLISECONDS = 3000;

/**
 * Sends a request to an HTTP server of another process from within a namespace, and blocks this thread until the server
 * has answered and closed the connection. The sockets of Node belong to the namespace of their process, and a process
 * for each request would cost a hundred times more.
 *
 * @param host an IP address
 * @param patience the longest wait for each part of the answer, in milliseconds
 */
export function askHttp(
  from: LabNamespace,
  host: string,
  port: number,
  path: string,
  patience = PATIENCE_MILLISECONDS,
): HttpAnswer {
  const address = parseAddress(host);
  const socket = ProbeSocket.open(from, familyOf(address), SocketType.STREAM);
  try {
    const errno = -socket.connect({ address, port });
    if (errno > 0 && errno !== Errno.EINPROGRESS) return failed(errnoName(errno));
    if (!waitFor(from, socket, POLLOUT, patience)) return failed("ETIMEDOUT");
    const refusal = socket.takeError();
    if (refusal !== 0) return failed(errnoName(refusal));
    // A server that speaks HTTP/1.0 sends no chunks, and closes the connection at the end of its answer.
    socket.send(Buffer.from(`GET ${path} HTTP/1.0\r\nHost: ${host}\r\n\r\n`));
    const pieces: Uint8Array[] = [];
    while (waitFor(from, socket, POLLIN, patience)) {
      const next = socket.receive();
      if (next.kind === "refused") return failed(errnoName(next.errno));
      if (next.kind === "end") return answerOf(Buffer.concat(pieces).toString("utf8"));
      if (next.kind === "data") pieces.push(next.data);
    }
    return failed("ETIMEDOUT");
  } finally {
    socket.close();
  }
}

/** Waits until a socket can be read or written, and returns whether it can. */
function waitFor({ calls }: LabNamespace, { fd }: ProbeSocket, events: number, milliseconds: number): boolean {
  const entry = new Uint8Array(POLLFD_SIZE);
  const view = new DataView(entry.buffer);
  view.setInt32(0, fd, littleEndian);
  view.setInt16(4, events, littleEndian);
  for (;;) {
    const ready = calls.poll(entry, milliseconds);
    if (ready !== -Errno.EINTR) return ready > 0;
  }
}

function answerOf(text: string): HttpAnswer {
  const end = text.indexOf("\r\n\r\n");
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = lines.map((line): [string, string] => {
    const [name = "", ...value] = line.split(":");
    return [name.toLowerCase(), value.join(":").trim()];
  });
  return { status: Number(first.split(" ")[1]), headers: Object.fromEntries(headers), body: text.slice(end + 4) };
}

function failed(code: string): HttpAnswer {
  return { status: 0, headers: {}, body: code };
}
