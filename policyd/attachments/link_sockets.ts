import type { Request } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { SocketPool } from "../../kernel/netlink/socket_pool.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { BackgroundCalls } from "../../kernel/syscall/background_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { LinkWriter } from "./link_removal.ts";

/**
 * The sockets by which pods' links are removed, in this thread's network namespace: one for requests that are answered
 * at once, and one for each request in the background, which needs a socket of its own.
 */
export class LinkSockets implements LinkWriter {
  readonly #calls: Syscalls & BackgroundCalls;
  readonly #foreground: NetlinkSocket;
  readonly #background: SocketPool;

  /** @throws SyscallError when the kernel refuses a socket */
  constructor(calls: Syscalls & BackgroundCalls) {
    this.#calls = calls;
    this.#foreground = openRouteSocket(calls);
    this.#background = new SocketPool(() => openRouteSocket(calls));
  }

  batch(requests: readonly Request[]): readonly Reply[] {
    return this.#foreground.batch(requests);
  }

  /** @throws DrawbridgeError (by the promise) when the kernel does not answer */
  inBackground(request: Request): Promise<Reply> {
    return this.#background.with((socket) => socket.inBackground(request, this.#calls));
  }
}
