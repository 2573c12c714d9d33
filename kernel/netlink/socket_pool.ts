import type { NetlinkSocket } from "./socket.ts";

/** One task takes two at most, and one task is under way nearly always alone. */
const MOST_IDLE = 2;

/** Sockets of one kind that stay open for who comes next; none is used by two at a time. */
export class SocketPool {
  readonly #open: () => NetlinkSocket;
  readonly #idle: NetlinkSocket[] = [];

  constructor(open: () => NetlinkSocket) {
    this.#open = open;
  }

  /**
   * Does something with a socket that nobody else uses meanwhile.
   *
   * @throws SyscallError when the kernel refuses one; what `work` throws: its socket, with whatever was not read, is closed
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
