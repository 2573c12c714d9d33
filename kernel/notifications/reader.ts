import { setTimeout as pause } from "node:timers/promises";
import { DrawbridgeError } from "../error.ts";
import { Errno } from "../syscall/errno.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import { EXHAUSTION_MILLISECONDS } from "../syscall/exhaustion.ts";
import { isReady, type PollCalls, pollEntries } from "../syscall/poll_calls.ts";
import { check, type Syscalls } from "../syscall/syscalls.ts";
import { NotificationSocket } from "./socket.ts";
import { type NotificationSource, planSource, type SourcePlan } from "./source.ts";
import type { Command, Report } from "./reader_message.ts";

/** The longest poll(2), which holds a thread of the runtime's pool. The eventfd interrupts it earlier. */
const LONGEST_POLL_MILLISECONDS = 30_000;
/** The size of the read buffer. The largest datagrams are a log's: a packet of up to 64 KiB and its attributes. */
const READ_BUFFER = 256 * 1024;
/** The most datagrams of a source read in one turn of the event loop, so that other work gets its turn. */
const LARGEST_BATCH = 128;

/** The environment of the reader. */
export interface ReaderHost {
  readonly calls: Syscalls & PollCalls & FileReadCalls;
  /** An eventfd that becomes readable when there are commands. */
  readonly wakeFd: number;
  /** Returns the commands that have arrived, each once. */
  takeCommands(): readonly Command[];
  /** Must not throw. */
  post(report: Report): void;
  /** Runs an action in the namespace whose events are read. */
  inside<T>(action: () => T): T;
}

interface OpenSource {
  readonly plan: SourcePlan;
  readonly socket: NotificationSocket;
}

/**
 * Reads event sockets and posts their datagrams. While the event loop is busy, datagrams wait in the kernel's buffers;
 * the kernel reports those that do not fit as lost.
 */
export class NotificationReader {
  readonly #host: ReaderHost;
  readonly #sources = new Map<number, OpenSource>();
  readonly #buffer = new Uint8Array(READ_BUFFER);

  constructor(host: ReaderHost) {
    this.#host = host;
  }

  /**
   * Waits, reads and posts until a stop command arrives, and then closes all sockets. Sockets are opened and closed
   * only between polls, because the kernel holds on to a socket until its poll has ended.
   *
   * @throws SyscallError (by the promise) when poll fails or the eventfd is invalid
   */
  async run(): Promise<void> {
    try {
      while (this.#obey(this.#host.takeCommands())) await this.#round();
    } finally {
      for (const { socket } of this.#sources.values()) socket.close();
      this.#sources.clear();
    }
  }

  /** Carries out an action of which a source is not notified. */
  deafFor(id: number, action: () => void): void {
    const source = this.#sources.get(id);
    source?.socket.leave(source.plan);
    try {
      action();
    } finally {
      if (source !== undefined) this.#orFail(id, () => source.socket.join(source.plan));
    }
  }

  /** @returns false after a stop command */
  #obey(commands: readonly Command[]): boolean {
    for (const command of commands) {
      if (command.kind === "stop") return false;
      if (command.kind === "open") this.#open(command.id, command.source);
      else this.#close(command.id);
    }
    return true;
  }

  #open(id: number, source: NotificationSource): void {
    this.#orFail(id, () => {
      const plan = planSource(source);
      this.#sources.set(id, { plan, socket: this.#openSocket(plan) });
      this.#host.post({ kind: "opened", id });
    });
  }

  #openSocket(plan: SourcePlan): NotificationSocket {
    return this.#host.inside(() => new NotificationSocket(this.#host.calls, plan, this.#buffer));
  }

  #close(id: number): void {
    this.#sources.get(id)?.socket.close();
    this.#sources.delete(id);
  }

  async #round(): Promise<void> {
    const { calls, wakeFd } = this.#host;
    const watched = [...this.#sources];
    const entries = pollEntries([wakeFd, ...watched.map(([, { socket }]) => socket.fd)]);
    const ready = await calls.pollInBackground(entries, LONGEST_POLL_MILLISECONDS);
    if (ready === -Errno.EINTR) return;
    // The kernel has no memory for the list of descriptors at the moment.
    if (ready === -Errno.ENOMEM) return await pause(EXHAUSTION_MILLISECONDS);
    check(ready, "poll netlink event sockets");
    if (isReady(entries, 0)) check(calls.read(wakeFd, new Uint8Array(8)), "read the event reader's eventfd");
    for (const [i, [id, source]] of watched.entries()) {
      if (isReady(entries, i + 1)) this.#orFail(id, () => this.#read(id, source));
    }
  }

  #read(id: number, { plan, socket }: OpenSource): void {
    const datagrams: Uint8Array[] = [];
    let isLost = false;
    while (datagrams.length < LARGEST_BATCH && !isLost) {
      const reading = socket.read();
      if (reading.kind === "nothing") break;
      if (reading.kind === "lost") isLost = true;
      else datagrams.push(reading.datagram);
    }
    if (datagrams.length > 0) this.#host.post({ kind: "datagrams", id, datagrams });
    if (!isLost) return;
    if (plan.tellsState) this.#replace(id, { plan, socket });
    this.#host.post({ kind: "overrun", id });
  }

  /**
   * Replaces a socket that lost messages. The changes still queued on it are older than the loss: a consumer that has
   * read the state again must not see them. The new socket has none, and misses nothing after the reported overrun. It
   * is opened before the old one is closed, because conntrack entries made without a listener never report their end.
   */
  #replace(id: number, { plan, socket }: OpenSource): void {
    this.#sources.set(id, { plan, socket: this.#openSocket(plan) });
    socket.close();
  }

  /** Closes and reports a source that fails. Any other error is a bug and ends the reader. */
  #orFail(id: number, action: () => void): void {
    try {
      action();
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined) throw error;
      this.#close(id);
      this.#host.post({ kind: "failed", id, error: failure });
    }
  }
}

function failureOf(error: unknown): DrawbridgeError | undefined {
  if (error instanceof DrawbridgeError) return error;
  return error instanceof RangeError ? new DrawbridgeError("ERR_CONFIGURATION", error.message) : undefined;
}
