import process from "node:process";
import { Worker } from "node:worker_threads";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { missingFeature } from "../../../kernel/missing_feature.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import { MessageFlag } from "../../../kernel/netlink/message.ts";
import { NETLINK_NETFILTER } from "../../../kernel/netlink/netfilter_message.ts";
import { acceptUpTo, bindQueue, type QueuedPacket, setQueueLength } from "../../../kernel/packets/queue.ts";
import { rule } from "../../../kernel/nftables/model/statement.ts";
import { tryTable } from "../../../kernel/nftables/table_check.ts";
import { NotificationSocket } from "../../../kernel/notifications/socket.ts";
import type { PollCalls } from "../../../kernel/syscall/poll_calls.ts";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";
import { POLICY_TABLE } from "../../../attachment/our_tables.ts";

/** The thread's module, beside this one also in the bundle. */
const THREAD = new URL(import.meta.url.replace(/[^/]*(\.[jt]s)$/, "answer_thread$1"));
/** Several times the answers of 5 ms at the highest rate. A daemon that is stopped (SIGSTOP) holds back as many. */
const MOST_WAITING = 256;
const RECEIVE_BUFFER_BYTES = 1024 * 1024;
/** The thread only decodes packets and passes them on. */
const THREAD_LIMITS = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };
/** The farthest that a number of 32 bits comes after another. */
const FARTHEST = 0x7fff_ffff;

/**
 * Opens the queue with a number.
 *
 * @returns why there is none, and the way out, where the kernel has no queues or another program has this one
 */
export function openAnswerQueue(calls: Syscalls & PollCalls, queue: number): AnswerQueue | string {
  const chain = { name: "queue", rules: [rule({ kind: "queue", number: queue })] };
  try {
    const isRefused = tryTable(calls, { ...POLICY_TABLE, sets: [], chains: [chain] }).some(({ refusal }) => refusal);
    if (!isRefused) return new AnswerQueue(calls, queue);
    const { what, way } = missingFeature("queue");
    return `${what}: ${way}`;
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    const isTaken = error instanceof NetlinkError && error.errnoName === "EPERM";
    return isTaken ? `another program has queue ${queue}: set answerLogGroup to another number` : error.message;
  }
}

/** The socket of a queue and the number of the queue, for the thread. */
export interface AnswerThreadData {
  readonly fd: number;
  readonly queue: number;
}

export interface AnswerQueueListener {
  /** Reports that packets wait from now on. */
  onReady(): void;
  /** Receives packets in their order; they pass when this returns, or before that when they have waited too long. */
  onPackets(packets: readonly Uint8Array[]): void;
  /** Reports that packets pass unread from now on. */
  onFailure(reason: string): void;
}

/**
 * The queue in which answers of DNS wait until their addresses are in force. It is held as long as the daemon runs, so
 * that no other program gets the packets of our rules; they wait only while its thread runs.
 */
export class AnswerQueue {
  readonly #socket: NotificationSocket;
  readonly #queue: number;
  #thread: Worker | undefined;
  /** The last packet that came. */
  #last = 0;

  /** @throws NetlinkError where the kernel has no queues, and if another program has this one */
  constructor(calls: Syscalls & PollCalls, queue: number) {
    const requests = [bindQueue(queue)];
    const plan = { protocol: NETLINK_NETFILTER, groups: [], requests, tellsState: false };
    this.#queue = queue;
    this.#socket = new NotificationSocket(
      calls,
      { ...plan, receiveBufferBytes: RECEIVE_BUFFER_BYTES },
      new Uint8Array(4096),
    );
  }

  /** Starts the thread. Packets wait as soon as it reads them. */
  start(listener: AnswerQueueListener): void {
    const workerData: AnswerThreadData = { fd: this.#socket.fd, queue: this.#queue };
    const thread = new Worker(THREAD, { workerData, resourceLimits: THREAD_LIMITS });
    this.#thread = thread;
    process.once("exit", this.stop);
    thread.on("message", (packets: readonly QueuedPacket[]) => {
      const last = packets.at(-1);
      if (this.#thread !== thread) return;
      if (last === undefined) {
        this.#socket.send(setQueueLength(this.#queue, MOST_WAITING));
        listener.onReady();
        return;
      }
      this.#last = last.id;
      listener.onPackets(packets.map(({ bytes }) => bytes));
      // The kernel refuses this if they had to wait too long.
      this.#socket.send(acceptUpTo(this.#queue, last.id));
    });
    thread.once("error", (error) => {
      if (this.#thread !== thread) return;
      this.stop();
      listener.onFailure(error instanceof Error ? error.message : String(error));
    });
  }

  /** Ends the thread; packets pass. */
  readonly stop = (): void => {
    if (this.#thread === undefined) return;
    process.removeListener("exit", this.stop);
    void this.#thread.terminate();
    this.#thread = undefined;
    // The acknowledgement wakes the thread, which ends.
    this.#socket.send(setQueueLength(this.#queue, 0), MessageFlag.ACK);
    this.#socket.send(acceptUpTo(this.#queue, this.#last + FARTHEST));
  };
}
