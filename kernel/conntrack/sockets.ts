import type { NetlinkSocket } from "../netlink/socket.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { openConntrackSocket } from "./table.ts";

/** What going through the table takes: the long wait for a list's beginning happens on a thread of its own. */
export type FlowCalls = Syscalls & FileReadCalls & BackgroundCalls;

/** A walk takes two at most, and one is under way nearly always alone. */
const MOST_IDLE = 2;

/**
 * The sockets of those who go through the connection tracking table of one network namespace again and again.
 *
 * They stay open: who closes one of Netfilter's waits while the kernel frees what the last batch of nftables has deleted,
 * a grace period of 10 to 20 ms (nft_rcv_nl_event of net/netfilter/nf_tables_api.c).
 */
export class ConntrackSockets {
  readonly calls: FlowCalls;
  readonly #open: () => NetlinkSocket;
  readonly #idle: NetlinkSocket[] = [];

  constructor(calls: FlowCalls, open: () => NetlinkSocket = () => openConntrackSocket(calls)) {
    this.calls = calls;
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
