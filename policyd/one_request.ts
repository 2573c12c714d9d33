import type { RequestListener } from "node:http";
import type { Socket } from "node:net";

/**
 * Answers one request of a connection at a time, and cuts a connection on which another comes before the answer.
 *
 * Node takes all requests that stand behind each other in one read, thousands in 64 KiB, and begins with each before anything else
 * gets a turn. Clients that do so (pipelining, RFC 9112, section 9.3.2) have to expect that they are cut and ask again.
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
