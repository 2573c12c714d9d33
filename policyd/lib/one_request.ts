import type { RequestListener } from "node:http";
import type { Socket } from "node:net";

/**
 * Returns a listener that answers one request of a connection at a time, and closes a connection on which another
 * request comes before the answer.
 *
 * Node parses all pipelined requests of one read, thousands in 64 KiB, and starts each before anything else gets a
 * turn. Clients that pipeline must be prepared for a closed connection and retry (RFC 9112, section 9.3.2).
 */
export function oneRequestAtATime(answer: RequestListener): RequestListener {
  const busy = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    if (busy.has(socket)) return void socket.destroy();
    busy.add(socket);
    response.once("close", () => busy.delete(socket));
    return answer(request, response);
  };
}
