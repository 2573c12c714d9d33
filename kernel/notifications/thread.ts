import { attempt, DrawbridgeError, problemOf } from "../error.ts";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { ControlType, decodeMessages, type ReceivedMessage } from "../netlink/message.ts";
import { Errno } from "../syscall/errno.ts";
import type { FileCalls } from "../syscall/file_calls.ts";
import { DescriptorFlag, isReady, type PollCalls, pollEntries } from "../syscall/poll_calls.ts";
import { EXHAUSTION_MILLISECONDS, isExhaustion } from "../syscall/exhaustion.ts";
import { check, type Syscalls } from "../syscall/syscalls.ts";
import type { NotificationListener, KernelNotifications, Subscription } from "./notifications.ts";
import { NotificationSocket } from "./socket.ts";
import { type NotificationSource, planSource, type SourcePlan } from "./source.ts";

/** The longest poll(2), which holds a thread of the runtime's pool. The eventfd interrupts it earlier. */
const LONGEST_POLL_MILLISECONDS = 30_000;
/** The size of the read buffer. The largest datagrams are a log's: a packet of up to 64 KiB and its attributes. */
const READ_BUFFER = 256 * 1024;
/** The most datagrams of a source read in one turn of the event loop, so that other work gets its turn. */
const LARGEST_BATCH = 128;

/** The calls of a thread. */
type Calls = Syscalls & Pick<FileCalls, "read" | "write"> & PollCalls;

/**
 * Makes a thread of the runtime's pool wait for the kernel's notifications, because Node cannot wait for a netlink
 * descriptor. The calling thread reads them: a worker would be a second JavaScript engine in memory.
 *
 * The thread keeps the process alive until it is stopped.
 *
 * @throws SyscallError when the kernel refuses an eventfd
 */
export function startNotificationThread(calls: Calls): KernelNotifications {
  return new NotificationThread(calls);
}

/** An open socket, and its listener until the subscription ends. */
interface Source {
  readonly plan: SourcePlan;
  socket: NotificationSocket;
  listener: NotificationListener | undefined;
}

/**
 * Reads sockets between two polls, and opens and closes them only then, because the kernel holds on to a socket until
 * its poll has ended. While the event loop is busy, datagrams wait in the kernel's buffers; the kernel reports those
 * that do not fit as lost.
 */
class NotificationThread implements KernelNotifications {
  readonly #calls: Calls;
  readonly #wakeFd: number;
  readonly #buffer = new Uint8Array(READ_BUFFER);
  readonly #sources = new Set<Source>();
  readonly #ended: Promise<void>;
  #opening: { readonly open: () => void; readonly refuse: (error: Error) => void }[] = [];
  #isStopped = false;

  constructor(calls: Calls) {
    this.#calls = calls;
    this.#wakeFd = check(calls.eventfd(0, DescriptorFlag.NONBLOCK | DescriptorFlag.CLOEXEC), "eventfd");
    // A process that ends without `stop` would wait for the polling thread.
    process.once("exit", this.#wake);
    this.#ended = this.#run();
  }

  async subscribe(given: NotificationSource, listener: NotificationListener): Promise<Subscription> {
    const source = await new Promise<Source>((keep, refuse) => {
      if (this.#isStopped) throw threadHasEnded();
      this.#opening.push({ open: () => keep(this.#open(given, listener)), refuse });
      this.#wake();
    });
    return {
      close: () => this.#close(source),
      deafFor: (action) => this.#deafFor(source, action),
    };
  }

  async stop(): Promise<void> {
    for (const source of this.#sources) source.listener = undefined;
    if (!this.#isStopped) this.#wake();
    this.#isStopped = true;
    await this.#ended;
  }

  async #run(): Promise<void> {
    let reason: Error = threadHasEnded();
    try {
      while (!this.#isStopped) await this.#round();
    } catch (error) {
      reason = error instanceof Error ? error : new Error(String(error));
    }
    this.#isStopped = true;
    process.removeListener("exit", this.#wake);
    this.#calls.close(this.#wakeFd);
    for (const { refuse } of this.#opening.splice(0)) refuse(reason);
    for (const { socket } of this.#sources) socket.close();
    for (const source of this.#sources) this.#fail(source, reason);
  }

  /** @throws SyscallError (by the promise) when poll fails or the eventfd is invalid */
  async #round(): Promise<void> {
    this.#openAndClose();
    const watched = [...this.#sources];
    const entries = pollEntries([this.#wakeFd, ...watched.map(({ socket }) => socket.fd)]);
    const ready = await this.#calls.pollInBackground(entries, LONGEST_POLL_MILLISECONDS);
    if (ready === -Errno.EINTR) return;
    // The kernel has no memory for the list of descriptors at the moment.
    if (ready === -Errno.ENOMEM) return await pause(EXHAUSTION_MILLISECONDS);
    check(ready, "poll netlink event sockets");
    if (isReady(entries, 0))
      check(this.#calls.read(this.#wakeFd, new Uint8Array(8)), "read the event reader's eventfd");
    for (const [i, source] of watched.entries()) {
      if (isReady(entries, i + 1)) this.#orFail(source, () => this.#read(source));
    }
  }

  #openAndClose(): void {
    for (const source of this.#sources) {
      if (source.listener !== undefined) continue;
      source.socket.close();
      this.#sources.delete(source);
    }
    for (const { open, refuse } of this.#opening.splice(0)) {
      try {
        open();
      } catch (error) {
        refuse(failureOf(error));
      }
    }
  }

  #open(given: NotificationSource, listener: NotificationListener): Source {
    const plan = planSource(given);
    const source = { plan, socket: this.#openSocket(plan), listener };
    this.#sources.add(source);
    return source;
  }

  #openSocket(plan: SourcePlan): NotificationSocket {
    return new NotificationSocket(this.#calls, plan, this.#buffer);
  }

  #close(source: Source): void {
    source.listener = undefined;
    if (!this.#isStopped) this.#wake();
  }

  #read(source: Source): void {
    const datagrams: Uint8Array[] = [];
    let isLost = false;
    while (datagrams.length < LARGEST_BATCH && !isLost) {
      const reading = source.socket.read();
      if (reading.kind === "nothing") break;
      if (reading.kind === "lost") isLost = true;
      else datagrams.push(reading.datagram);
    }
    if (datagrams.length > 0) this.#tell(source, (listener) => tellMessages(listener, datagrams));
    if (!isLost) return;
    if (source.plan.tellsState) this.#replace(source);
    this.#tell(source, (listener) => listener.onOverrun());
  }

  /**
   * Replaces a socket that lost messages. The changes still queued on it are older than the loss: a consumer that has
   * read the state again must not see them. The new socket has none, and misses nothing after the reported overrun. It
   * is opened before the old one is closed, because conntrack entries made without a listener never report their end.
   */
  #replace(source: Source): void {
    const broken = source.socket;
    source.socket = this.#openSocket(source.plan);
    broken.close();
  }

  /** Carries out an action of which a source is not notified. */
  #deafFor(source: Source, action: () => void): void {
    const isOpen = source.listener !== undefined;
    if (isOpen) source.socket.leave(source.plan);
    try {
      action();
    } finally {
      if (isOpen) this.#orFail(source, () => source.socket.join(source.plan));
    }
  }

  /** Closes and reports a source that fails. Any other error is a bug and ends the thread. */
  #orFail(source: Source, action: () => void): void {
    attempt(action, (error) => this.#fail(source, error));
  }

  #fail(source: Source, error: Error): void {
    this.#tell(source, (listener) => {
      this.#close(source);
      listener.onFailure(error);
    });
  }

  /**
   * Reports to a listener. If it finds no descriptor or no memory, the report counts as lost, and the listener is notified of
   * the loss later. One that throws anything else has a bug, which ends the process unless caught, not this read.
   */
  #tell(source: Source, tell: (listener: NotificationListener) => void): void {
    try {
      if (source.listener !== undefined) tell(source.listener);
    } catch (error) {
      if (isExhaustion(error)) {
        const again = (): void => this.#tell(source, (listener) => listener.onOverrun());
        setTimeout(again, EXHAUSTION_MILLISECONDS).unref();
        return;
      }
      process.nextTick(() => {
        throw error;
      });
    }
  }

  readonly #wake = (): void => {
    // EAGAIN would mean a counter near its 64-bit end, and that the thread is already awake.
    this.#calls.write(this.#wakeFd, new Uint8Array(BigUint64Array.of(1n).buffer));
  };
}

function threadHasEnded(): DrawbridgeError {
  return new DrawbridgeError("ERR_SYSCALL", "kernel events: the event thread has ended; start another");
}

function failureOf(error: unknown): Error {
  if (error instanceof RangeError) return new DrawbridgeError("ERR_CONFIGURATION", error.message);
  return error instanceof Error ? error : new Error(String(error));
}

/** Passes on the messages of datagrams. A datagram that cannot be decoded counts as lost. */
function tellMessages(listener: NotificationListener, datagrams: readonly Uint8Array[]): void {
  const messages: ReceivedMessage[] = [];
  let isLost = false;
  for (const datagram of datagrams) {
    const problem = problemOf(() =>
      messages.push(...decodeMessages(datagram).filter(({ type }) => type > ControlType.OVERRUN)),
    );
    if (problem !== undefined) isLost = true;
  }
  if (messages.length > 0) listener.onMessages(messages);
  if (isLost) listener.onOverrun();
}
