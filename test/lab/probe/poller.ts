import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { littleEndian } from "../../../kernel/byte_order.ts";
import type { LabCalls } from "../libc.ts";
import type { ProbeSocket } from "./socket.ts";

const POLLIN = 1;
const POLLOUT = 4;
const POLLFD_SIZE = 8;
const LONGEST_POLL_MILLISECONDS = 2;

/** The handlers for a socket that is readable (or has failed) or writable. */
export interface Watcher {
  readonly onReadable: () => void;
  readonly onWritable?: () => void;
}

interface Entry {
  readonly socket: ProbeSocket;
  readonly watcher: Watcher;
}

/**
 * Many sockets of many namespaces in one poll(2) loop.
 *
 * Node's own event loop cannot watch descriptors that it did not make, so this loop polls for a few milliseconds at a
 * time and lets timers run in between.
 */
export class Poller {
  readonly #calls: LabCalls;
  readonly #entries = new Map<number, Entry>();

  constructor(calls: LabCalls) {
    this.#calls = calls;
  }

  watch(socket: ProbeSocket, watcher: Watcher): void {
    this.#entries.set(socket.fd, { socket, watcher });
  }

  /** Stops watching and closes. */
  drop(socket: ProbeSocket): void {
    if (this.#entries.delete(socket.fd)) socket.close();
  }

  /** Handles events until `isDone`, which is called before every round. */
  async runUntil(isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      this.#round();
      await yieldToEventLoop();
    }
  }

  close(): void {
    for (const { socket } of this.#entries.values()) socket.close();
    this.#entries.clear();
  }

  #round(): void {
    const entries = [...this.#entries.values()];
    const polled = new Uint8Array(entries.length * POLLFD_SIZE);
    const view = new DataView(polled.buffer);
    for (const [i, { socket, watcher }] of entries.entries()) {
      view.setInt32(i * POLLFD_SIZE, socket.fd, littleEndian);
      view.setInt16(i * POLLFD_SIZE + 4, POLLIN | (watcher.onWritable === undefined ? 0 : POLLOUT), littleEndian);
    }
    if (this.#calls.poll(polled, LONGEST_POLL_MILLISECONDS) <= 0) return;
    for (const [i, entry] of entries.entries()) {
      const events = view.getInt16(i * POLLFD_SIZE + 6, littleEndian);
      // A handler may have dropped another socket of this round, and its number may be in use again.
      const isWatched = (): boolean => this.#entries.get(entry.socket.fd) === entry;
      if ((events & POLLOUT) !== 0 && isWatched()) entry.watcher.onWritable?.();
      if ((events & ~POLLOUT) !== 0 && isWatched()) entry.watcher.onReadable();
    }
  }
}
