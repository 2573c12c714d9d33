import { Worker } from "node:worker_threads";
import { DrawbridgeError } from "../error.ts";
import type { ReceivedMessage } from "../netlink/message.ts";
import { ControlType, decodeMessages } from "../netlink/message.ts";
import type { FileCalls } from "../syscall/file_calls.ts";
import type { PollCalls } from "../syscall/poll_calls.ts";
import { DescriptorFlag } from "../syscall/poll_calls.ts";
import { check } from "../syscall/syscalls.ts";
import type { EventListener, KernelEvents, Subscription } from "./events.ts";
import { QueueBudget } from "./queue_budget.ts";
import type { EventSource } from "./source.ts";
import type { Command, Report, ThreadInput } from "./thread_message.ts";
import { isReport } from "./thread_message.ts";

/** How much may wait for the main thread before the event thread stops reading. */
const QUEUE_BYTES = 16 * 1024 * 1024;

/** The thread's own program: beside the bundled daemon it is bundled too (test/setup/build_daemon.mjs). */
const PROGRAM = import.meta.url.endsWith(".ts") ? "thread_main.ts" : "thread_main.js";

export interface EventThreadOptions {
  readonly calls: PollCalls & Pick<FileCalls, "write" | "close">;
  /** The network namespace whose events are meant (`/run/netns/NAME`); the process's own when absent. */
  readonly namespacePath?: string;
  readonly queueBytes?: number;
}

/**
 * Starts the one thread that waits for the kernel's notifications: Node cannot wait for a netlink descriptor.
 *
 * It keeps the process alive until it is stopped.
 *
 * @throws SyscallError when the kernel refuses an eventfd
 */
export function startEventThread(options: EventThreadOptions): KernelEvents {
  return new EventThread(options);
}

interface Subscriber {
  readonly listener: EventListener;
  /** Until the source is open. */
  opening: { readonly keep: () => void; readonly break: (error: Error) => void } | undefined;
}

class EventThread implements KernelEvents {
  readonly #calls: EventThreadOptions["calls"];
  readonly #wakeFd: number;
  readonly #budget: QueueBudget;
  readonly #worker: Worker;
  readonly #ended: Promise<void>;
  readonly #subscribers = new Map<number, Subscriber>();
  #lastId = 0;
  #hasEnded = false;

  constructor({ calls, namespacePath, queueBytes = QUEUE_BYTES }: EventThreadOptions) {
    this.#calls = calls;
    this.#budget = new QueueBudget(queueBytes);
    this.#wakeFd = check(calls.eventfd(0, DescriptorFlag.NONBLOCK | DescriptorFlag.CLOEXEC), "eventfd");
    const input: ThreadInput = { wakeFd: this.#wakeFd, memory: this.#budget.memory, queueBytes, namespacePath };
    this.#worker = new Worker(new URL(PROGRAM, import.meta.url), { name: "kernel-events", workerData: input });
    this.#worker.on("message", (report: unknown) => {
      if (isReport(report)) this.#take(report);
    });
    this.#worker.on("error", (error) => this.#endAll(error instanceof Error ? error : new Error(String(error))));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        this.#hasEnded = true;
        this.#calls.close(this.#wakeFd);
        this.#endAll(threadHasEnded());
        resolve();
      });
    });
  }

  async subscribe(source: EventSource, listener: EventListener): Promise<Subscription> {
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
    };
  }

  async stop(): Promise<void> {
    this.#forgetAll();
    this.#command({ kind: "stop" });
    await this.#ended;
  }

  #command(command: Command): void {
    if (this.#hasEnded) return;
    this.#worker.postMessage(command, []);
    this.#wake();
  }

  #wake(): void {
    // EAGAIN would mean a counter near its 64-bit end, and the thread awake already.
    this.#calls.write(this.#wakeFd, new Uint8Array(BigUint64Array.of(1n).buffer));
  }

  #take(report: Report): void {
    const subscriber = this.#subscribers.get(report.id);
    try {
      if (subscriber !== undefined) this.#tell(report, subscriber);
    } finally {
      if (report.kind === "datagrams" && this.#budget.release(report.cost) && !this.#hasEnded) this.#wake();
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
        return end(subscriber, new DrawbridgeError(report.failure.code, report.failure.message));
    }
  }

  #endAll(error: Error): void {
    const subscribers = [...this.#subscribers.values()];
    this.#subscribers.clear();
    for (const subscriber of subscribers) end(subscriber, error);
  }

  /** Ends what is on its way; open sources end without a word, as was asked for. */
  #forgetAll(): void {
    for (const [id, { opening }] of this.#subscribers) if (opening === undefined) this.#subscribers.delete(id);
    this.#endAll(threadHasEnded());
  }
}

function threadHasEnded(): DrawbridgeError {
  return new DrawbridgeError("ERR_SYSCALL", "kernel events: the event thread has ended; start another");
}

function end({ listener, opening }: Subscriber, error: Error): void {
  if (opening === undefined) listener.onFailure(error);
  else opening.break(error);
}

/** A datagram that cannot be read is as good as lost. */
function tellMessages(listener: EventListener, datagrams: readonly Uint8Array[]): void {
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
