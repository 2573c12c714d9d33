import process from "node:process";
import { DrawbridgeError } from "../error.ts";
import { ControlType, decodeMessages, type ReceivedMessage } from "../netlink/message.ts";
import {
  closeNamespace,
  currentNamespace,
  insideNamespace,
  type NetworkNamespace,
  openNamespace,
} from "../network_namespace.ts";
import type { FileCalls } from "../syscall/file_calls.ts";
import { DescriptorFlag, type PollCalls } from "../syscall/poll_calls.ts";
import { EXHAUSTION_MILLISECONDS, isExhaustion } from "../syscall/exhaustion.ts";
import { check, type Syscalls } from "../syscall/syscalls.ts";
import type { NotificationListener, KernelNotifications, Subscription } from "./notifications.ts";
import { NotificationReader } from "./reader.ts";
import type { Command, Report } from "./reader_message.ts";
import type { NotificationSource } from "./source.ts";

export interface NotificationThreadOptions {
  readonly calls: Syscalls & FileCalls & PollCalls;
  /** The network namespace whose events are read (`/run/netns/NAME`); the calling thread's own when absent. */
  readonly namespacePath?: string;
}

/**
 * Makes a thread of the runtime's pool wait for the kernel's notifications, because Node cannot wait for a netlink
 * descriptor. The calling thread reads them: a worker would be a second JavaScript engine in memory.
 *
 * The thread keeps the process alive until it is stopped.
 *
 * @throws SyscallError when the kernel refuses an eventfd
 */
export function startNotificationThread(options: NotificationThreadOptions): KernelNotifications {
  return new NotificationThread(options);
}

interface Subscriber {
  readonly listener: NotificationListener;
  /** Set until the source is open. */
  opening: { readonly keep: () => void; readonly break: (error: Error) => void } | undefined;
}

class NotificationThread implements KernelNotifications {
  readonly #calls: NotificationThreadOptions["calls"];
  readonly #wakeFd: number;
  readonly #reader: NotificationReader;
  readonly #ended: Promise<void>;
  readonly #subscribers = new Map<number, Subscriber>();
  #commands: Command[] = [];
  #lastId = 0;
  #hasEnded = false;

  constructor({ calls, namespacePath }: NotificationThreadOptions) {
    this.#calls = calls;
    this.#wakeFd = check(calls.eventfd(0, DescriptorFlag.NONBLOCK | DescriptorFlag.CLOEXEC), "eventfd");
    const place = namespacePath === undefined ? undefined : new Place(calls, namespacePath);
    this.#reader = new NotificationReader({
      calls,
      wakeFd: this.#wakeFd,
      takeCommands: () => this.#commands.splice(0),
      post: (report) => this.#take(report),
      inside: (action) => (place === undefined ? action() : place.inside(action)),
    });
    // A process that ends without `stop` would wait for the polling thread.
    process.once("exit", this.#wake);
    this.#ended = this.#run(place);
  }

  async subscribe(source: NotificationSource, listener: NotificationListener): Promise<Subscription> {
    if (this.#hasEnded) throw threadHasEnded();
    const id = ++this.#lastId;
    await new Promise<void>((keep, refuse) => {
      this.#subscribers.set(id, { listener, opening: { keep, break: refuse } });
      this.#command({ kind: "open", id, source });
    });
    return {
      close: () => {
        if (this.#subscribers.delete(id)) this.#command({ kind: "close", id });
      },
      deafFor: (action) => this.#reader.deafFor(id, action),
    };
  }

  async stop(): Promise<void> {
    this.#forgetAll();
    this.#command({ kind: "stop" });
    await this.#ended;
  }

  async #run(place: Place | undefined): Promise<void> {
    try {
      await this.#reader.run();
    } catch (error) {
      this.#endAll(error instanceof Error ? error : new Error(String(error)));
    } finally {
      this.#hasEnded = true;
      process.removeListener("exit", this.#wake);
      this.#calls.close(this.#wakeFd);
      place?.leave();
      this.#endAll(threadHasEnded());
    }
  }

  #command(command: Command): void {
    if (this.#hasEnded) return;
    this.#commands.push(command);
    this.#wake();
  }

  readonly #wake = (): void => {
    // EAGAIN would mean a counter near its 64-bit end, and that the thread is already awake.
    this.#calls.write(this.#wakeFd, new Uint8Array(BigUint64Array.of(1n).buffer));
  };

  /**
   * Passes a report on. If a listener finds no descriptor or no memory, the report counts as lost, and the listener is
   * notified of the loss later. One that throws anything else has a bug, which ends the process unless caught, not this read.
   */
  #take(report: Report): void {
    const subscriber = this.#subscribers.get(report.id);
    try {
      if (subscriber !== undefined) this.#tell(report, subscriber);
    } catch (error) {
      if (isExhaustion(error)) {
        setTimeout(() => this.#take({ kind: "overrun", id: report.id }), EXHAUSTION_MILLISECONDS).unref();
        return;
      }
      process.nextTick(() => {
        throw error;
      });
    }
  }

  #tell(report: Report, subscriber: Subscriber): void {
    switch (report.kind) {
      case "opened":
        subscriber.opening?.keep();
        subscriber.opening = undefined;
        return;
      case "datagrams":
        return tellMessages(subscriber.listener, report.datagrams);
      case "overrun":
        return subscriber.listener.onOverrun();
      case "failed":
        this.#subscribers.delete(report.id);
        return end(subscriber, report.error);
    }
  }

  #endAll(error: Error): void {
    const subscribers = [...this.#subscribers.values()];
    this.#subscribers.clear();
    for (const subscriber of subscribers) end(subscriber, error);
  }

  /** Fails subscriptions that are still opening. Open ones end silently, as their owner asked. */
  #forgetAll(): void {
    for (const [id, { opening }] of this.#subscribers) if (opening === undefined) this.#subscribers.delete(id);
    this.#endAll(threadHasEnded());
  }
}

/** A namespace that is entered only for single actions, so that nothing the runtime starts in between runs in it. */
class Place {
  readonly #calls: Syscalls & FileCalls;
  readonly #path: string;
  #open: { readonly home: NetworkNamespace; readonly target: NetworkNamespace } | undefined;

  constructor(calls: Syscalls & FileCalls, path: string) {
    this.#calls = calls;
    this.#path = path;
  }

  /** @throws SyscallError when the namespace does not exist or cannot be entered */
  inside<T>(action: () => T): T {
    this.#open ??= { target: openNamespace(this.#calls, this.#path), home: currentNamespace(this.#calls) };
    return insideNamespace(this.#calls, this.#open.home, this.#open.target, action);
  }

  /** Closes the descriptors, because an open descriptor keeps a namespace alive. */
  leave(): void {
    if (this.#open === undefined) return;
    for (const namespace of Object.values(this.#open)) closeNamespace(this.#calls, namespace);
  }
}

function threadHasEnded(): DrawbridgeError {
  return new DrawbridgeError("ERR_SYSCALL", "kernel events: the event thread has ended; start another");
}

function end({ listener, opening }: Subscriber, error: Error): void {
  if (opening === undefined) listener.onFailure(error);
  else opening.break(error);
}

/** Passes on the messages of datagrams. A datagram that cannot be decoded counts as lost. */
function tellMessages(listener: NotificationListener, datagrams: readonly Uint8Array[]): void {
  const messages: ReceivedMessage[] = [];
  let isLost = false;
  for (const datagram of datagrams) {
    try {
      messages.push(...decodeMessages(datagram).filter(({ type }) => type > ControlType.OVERRUN));
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      isLost = true;
    }
  }
  if (messages.length > 0) listener.onMessages(messages);
  if (isLost) listener.onOverrun();
}
