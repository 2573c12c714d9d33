import type { NetlinkSocket } from "../netlink/socket.ts";
import { SocketPool } from "../netlink/socket_pool.ts";
import type { BackgroundCalls } from "../syscall/background_calls.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { openConntrackSocket } from "./table.ts";

/** The calls needed to go through the table. The long wait for a list's beginning happens on another thread. */
export type FlowCalls = Syscalls & FileReadCalls & BackgroundCalls;

/**
 * Keeps sockets open for repeated walks through the connection tracking table of one network namespace.
 *
 * Closing a Netfilter socket would wait while the kernel frees what the last nftables batch has deleted, a grace period
 * of 10 to 20 ms (nft_rcv_nl_event of net/netfilter/nf_tables_api.c).
 */
export class ConntrackSockets extends SocketPool {
  readonly calls: FlowCalls;

  constructor(calls: FlowCalls, open: () => NetlinkSocket = () => openConntrackSocket(calls)) {
    super(open);
    this.calls = calls;
  }
}
