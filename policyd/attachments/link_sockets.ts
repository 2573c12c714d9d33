import { SocketPool } from "../../kernel/netlink/socket_pool.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { BackgroundCalls } from "../../kernel/syscall/background_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { LinkWriter } from "./link_removal.ts";

/**
 * Opens the sockets by which pods' links are removed, in this thread's network namespace: one for requests that are
 * answered at once, and one for each request in the background, which needs a socket of its own.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openLinkSockets(calls: Syscalls & BackgroundCalls): LinkWriter {
  const foreground = openRouteSocket(calls);
  const background = new SocketPool(() => openRouteSocket(calls));
  return {
    batch: (requests) => foreground.batch(requests),
    inBackground: (request) => background.with((socket) => socket.inBackground(request, calls)),
  };
}
