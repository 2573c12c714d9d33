import { parentPort, workerData } from "node:worker_threads";
import { decodeMessages } from "../../../kernel/netlink/message.ts";
import { acceptUpTo, parseQueuedPacket, type QueuedPacket } from "../../../kernel/packets/queue.ts";
import { NotificationSocket } from "../../../kernel/notifications/socket.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { pollEntries } from "../../../kernel/syscall/poll_calls.ts";
import type { AnswerThreadData } from "./answer_queue.ts";

/**
 * Runs as the thread that reads the queue of DNS answers. It passes them on to the main thread, which releases them when
 * their addresses are in force. After some milliseconds this thread releases them, whatever the main thread does: so it
 * waits in poll, not in its event loop.
 */

/**
 * The longest wait, in turns of a millisecond to which poll adds a fraction: no answer waits for more than 5 ms. A wait is
 * counted in turns and not by the clock, since a machine that stops both threads takes none of the main thread's turns.
 */
const LONGEST_WAIT_TURNS = 4;
const TURN_MILLISECONDS = 1;
const MOST_AT_ONCE = 64;
/** For a packet of 64 KB and its attributes. */
const BUFFER_BYTES = 128 * 1024;

const given: unknown = workerData;
if (!isThreadData(given)) throw new TypeError("this module runs only as the thread of a queue");
const { fd, queue } = given;
const calls = nodeSyscalls();
const socket = new NotificationSocket(calls, { fd }, new Uint8Array(BUFFER_BYTES));
const entries = pollEntries([fd]);
/** The last packet of each group that was read at once, the oldest first, and the turn in which its wait ends. */
const waiting: { readonly id: number; readonly until: number }[] = [];
let turn = 0;
let turnBegan = 0;

function isThreadData(value: unknown): value is AnswerThreadData {
  return typeof value === "object" && value !== null && "fd" in value && "queue" in value;
}

function read(): readonly QueuedPacket[] {
  const packets: QueuedPacket[] = [];
  while (packets.length < MOST_AT_ONCE) {
    const reading = socket.read();
    if (reading.kind === "nothing") break;
    // The kernel lets packets pass that do not fit the socket's buffer.
    if (reading.kind === "lost") continue;
    packets.push(...decodeMessages(reading.datagram).flatMap((message) => parseQueuedPacket(message) ?? []));
  }
  return packets;
}

function releaseOverdue(): void {
  const first = waiting.findIndex(({ until }) => until > turn);
  const [last] = waiting.splice(0, first < 0 ? waiting.length : first).slice(-1);
  // The kernel refuses this if the main thread was faster.
  if (last !== undefined) socket.send(acceptUpTo(queue, last.id));
}

// The main thread lets packets wait once it has this message.
parentPort?.postMessage([], []);
for (;;) {
  calls.poll(entries, waiting.length === 0 ? -1 : TURN_MILLISECONDS);
  const now = performance.now();
  if (now - turnBegan >= TURN_MILLISECONDS) {
    turn++;
    turnBegan = now;
    releaseOverdue();
  }
  const packets = read();
  const last = packets.at(-1);
  if (last === undefined) continue;
  waiting.push({ id: last.id, until: turn + LONGEST_WAIT_TURNS });
  parentPort?.postMessage(packets, []);
}
