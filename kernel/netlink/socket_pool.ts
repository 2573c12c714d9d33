import type { NetlinkSocket } from "./socket.ts";

/** One task takes at most two, and few tasks overlap. */
const MOST_IDLE = 8;

/** Retains open sockets of one kind for the next tasks. Two tasks never share a socket. */
export class SocketPool {
  readonly #open: () => NetlinkSocket;
  readonly #idle: NetlinkSocket[] = [];

  constructor(open: () => NetlinkSocket) {
    this.#open = open;
  }

  /**
   * Runs `work` with a socket that nobody else uses meanwhile. When `work` throws, the socket is closed, as it may have
   * unread data.
   *
   * @throws SyscallError when the kernel refuses a socket, and whatever `work` throws
   */
  async with<T>(work: (socket: NetlinkSocket) => Promise<T>): Promise<T> {
    const socket = this.#idle.pop() ?? this.#open();
    let isUsable = false;
    try {
      const result = await work(socket);
      isUsable = this.#idle.length < MOST_IDLE;
      return result;
    } finally {
      if (isUsable) this.#idle.push(socket);
      else socket.close();
    }
  }
}
