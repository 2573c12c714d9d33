import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import type { KernelNotifications, Subscription } from "../../../kernel/notifications/notifications.ts";
import { exceptPort } from "../../../kernel/notifications/socket.ts";
import type { NotificationSource } from "../../../kernel/notifications/source.ts";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import { kernelAnswer } from "./scripted_syscalls.ts";

const WAKE_FD = 3;
const FIRST_SOCKET = 10;
const POLLIN = 1;
const links: NotificationSource = { kind: "route", groups: ["link"] };
const log: NotificationSource = { kind: "nflog", group: 4, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 };

/** A datagram with its sender's port ID, or the errno of a receive. */
type Step = number | { readonly datagram: Uint8Array; readonly portId?: number };

/** A fake kernel of event sockets. It records what is done to them, and runs an action in each poll. */
class FakeKernel {
  readonly done: string[] = [];
  readonly reports: string[] = [];
  readonly queues = new Map<number, Step[]>();
  /** The actions of the polls, or their errors. After the last one the thread is stopped. */
  readonly rounds: (number | (() => unknown))[] = [];
  /** Results of the next sockets, if they fail. */
  readonly refusals = new Map<number, number>();
  readonly subscriptions: (Subscription | undefined)[] = [];
  /** The attached programs, by descriptor; {@link filterResult} is the kernel's answer. */
  readonly filters = new Map<number, Uint8Array>();
  filterResult = 0;
  /** Called with each text that a listener gets. */
  onText = (_text: string): void => {};
  /** Called after the last round, or when the thread has ended by itself. */
  onDrained = (): void => {};
  #nextFd = FIRST_SOCKET;

  /** Subscribes to sources, which are numbered from 1 in reports, and runs all rounds. */
  async run(...sources: readonly NotificationSource[]): Promise<readonly string[]> {
    const drained = Promise.withResolvers<void>();
    const events = startNotificationThread({
      ...nodeSyscalls(),
      eventfd: () => WAKE_FD,
      write: () => 8,
      read: () => 8,
      socket: () => this.#open(),
      bind: () => 0,
      setsockopt: (fd) => {
        if (this.done.includes(`close ${fd}`)) this.done.push(`use ${fd}`);
        return 0;
      },
      attachFilter: (fd, program) => {
        this.filters.set(fd, program.slice());
        return this.filterResult;
      },
      send: (fd, data) => {
        this.queues.get(fd)?.push({ datagram: kernelAnswer(1) });
        return data.length;
      },
      receiveFrom: (fd, buffer, _flags, sender) => this.#receive(fd, buffer, sender),
      close: (fd) => {
        this.done.push(`close ${fd}`);
        if (fd === WAKE_FD) drained.resolve();
        return 0;
      },
      pollInBackground: async (entries) => {
        // Node would not leave its loop for a listener's promise.
        await pause(0);
        if (this.subscriptions.length < sources.length) return 0;
        const round = this.rounds.shift() ?? drained.resolve;
        if (typeof round === "number") return -round;
        round();
        return this.#poll(entries);
      },
    });
    for (const [i, source] of sources.entries()) this.subscriptions.push(await this.#subscribe(events, i + 1, source));
    await drained.promise;
    this.onDrained();
    await events.stop();
    return this.reports;
  }

  put(fd: number, ...steps: readonly (number | string | Step)[]): void {
    const queue = this.queues.get(fd) ?? assert.fail(`no socket ${fd}`);
    queue.push(...steps.map((step) => (typeof step === "string" ? { datagram: message(step) } : step)));
  }

  async #subscribe(
    events: KernelNotifications,
    id: number,
    source: NotificationSource,
  ): Promise<Subscription | undefined> {
    try {
      return await events.subscribe(source, {
        onMessages: (messages) => {
          const text = messages.map(({ body }) => new TextDecoder().decode(body)).join("");
          this.reports.push(`${id} ${text}`);
          this.onText(text);
        },
        onOverrun: () => this.reports.push(`${id} overrun`),
        onFailure: (error) => this.reports.push(`${id} ${error.message}`),
      });
    } catch (error) {
      this.reports.push(`${id} ${(error as Error).message}`);
      return undefined;
    }
  }

  #open(): number {
    const fd = this.#nextFd++;
    const errno = this.refusals.get(fd);
    if (errno !== undefined) return -errno;
    this.done.push(`open ${fd}`);
    this.queues.set(fd, []);
    return fd;
  }

  #receive(fd: number, buffer: Uint8Array, sender: Uint8Array): number {
    const step = this.queues.get(fd)?.shift();
    if (step === undefined) return -Errno.EAGAIN;
    if (typeof step === "number") return -step;
    buffer.set(step.datagram);
    new DataView(sender.buffer).setUint32(4, step.portId ?? 0, littleEndian);
    return step.datagram.length;
  }

  #poll(entries: Uint8Array): number {
    const view = new DataView(entries.buffer);
    for (let at = 0; at < entries.length; at += 8) {
      const isReadable = (this.queues.get(view.getInt32(at, littleEndian))?.length ?? 0) > 0;
      view.setInt16(at + 6, isReadable ? POLLIN : 0, littleEndian);
    }
    return 1;
  }
}

/** Returns a message that a socket's request caused. */
function message(text: string, portId = 0): Uint8Array {
  const bytes = new Uint8Array(16 + text.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.length, littleEndian);
  view.setUint16(4, 16, littleEndian);
  view.setUint32(12, portId, littleEndian);
  bytes.set(new TextEncoder().encode(text), 16);
  return bytes;
}

describe("kernel/notifications thread", () => {
  it("the thread reports datagrams of the kernel, not of processes, in batches, and closes everything when it is stopped", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, "a", { datagram: message("x"), portId: 77 }, "b"),
      () => kernel.put(11, "c"),
    );
    assert.deepEqual(await kernel.run(links, log), ["1 ab", "2 c"]);
    assert.deepEqual(kernel.done, ["open 10", "open 11", "close 3", "close 10", "close 11"]);
  });

  it("DP-08: the kernel filters out the changes of our own socket, and the thread does so itself where the kernel refuses", async () => {
    for (const filterResult of [0, -Errno.EPERM]) {
      const kernel = new FakeKernel();
      kernel.filterResult = filterResult;
      kernel.rounds.push(() => kernel.put(10, { datagram: message("own", 77) }, { datagram: message("other", 78) }));
      assert.deepEqual(await kernel.run({ kind: "nftables", exceptPortId: 77 }), ["1 other"]);
      assert.deepEqual([...kernel.filters], [[10, exceptPort(77)]]);
    }
    const plain = new FakeKernel();
    await plain.run({ kind: "nftables" });
    assert.equal(plain.filters.size, 0);
  });

  it("an overrun of a state source is reported once, and what was queued before it is dropped", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, "a", Errno.ENOBUFS, "stale", "stale"),
      () => kernel.put(11, "new"),
    );
    assert.deepEqual(await kernel.run(links), ["1 a", "1 overrun", "1 new"]);
    // The new socket is open before the old one is closed.
    assert.deepEqual(kernel.done, ["open 10", "open 11", "close 10", "close 3", "close 11"]);
  });

  it("one busy source is read in turns, with other sources in between", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => {
        kernel.put(10, ...Array.from({ length: 200 }, () => "x"));
        kernel.put(11, "y");
      },
      () => {},
    );
    const reports = await kernel.run(links, links);
    assert.deepEqual(
      reports.map((report) => report.replaceAll(/[^xy]/g, "").length),
      [128, 1, 72],
    );
  });

  it("a source that cannot be opened, that breaks or that is closed leaves the others open", async () => {
    const kernel = new FakeKernel();
    kernel.refusals.set(11, Errno.EPROTONOSUPPORT);
    kernel.rounds.push(
      () => kernel.put(10, Errno.ENETDOWN),
      () => kernel.put(12, "a"),
      () => kernel.subscriptions[3]?.close(),
      () => kernel.put(13, "unheard"),
      () => kernel.put(12, "b"),
    );
    assert.deepEqual(await kernel.run(links, links, links, links), [
      "2 netlink event socket 0: EPROTONOSUPPORT (protocol not supported)",
      "1 read netlink event socket: ENETDOWN (network is down)",
      "3 a",
      "3 b",
    ]);
    assert.deepEqual(
      kernel.done.filter((what) => what.startsWith("close")),
      ["close 10", "close 13", "close 3", "close 12"],
    );
  });

  it("DAEMON-10: a listener that finds no descriptor learns later that messages were lost, and a poll without memory is repeated", async () => {
    const kernel = new FakeKernel();
    kernel.onText = () => {
      throw new SyscallError("open", Errno.EMFILE);
    };
    kernel.rounds.push(
      () => kernel.put(10, "a"),
      Errno.ENOMEM,
      () => {},
      Errno.ENOMEM,
    );
    assert.deepEqual(await kernel.run(links), ["1 a", "1 overrun"]);
  });

  it("a poll that fails ends all subscriptions, and none of them uses a descriptor that may be another one's by then", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(Errno.EINVAL);
    kernel.onDrained = () => {
      for (const subscription of kernel.subscriptions) {
        subscription?.deafFor(() => kernel.reports.push("action"));
        subscription?.close();
      }
    };
    const failure = "poll netlink event sockets: EINVAL (invalid argument)";
    assert.deepEqual(await kernel.run(links, log), [`1 ${failure}`, `2 ${failure}`, "action", "action"]);
    assert.deepEqual(kernel.done, ["open 10", "open 11", "close 3", "close 10", "close 11"]);
  });

  it("an exception of a listener is uncaught and visible, and the thread reads on", async () => {
    const seen: unknown[] = [];
    const others = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", (error: Error) => seen.push(error.message));
    try {
      const kernel = new FakeKernel();
      kernel.onText = (text) => {
        if (text === "a") throw new Error("a bug");
      };
      kernel.rounds.push(
        () => kernel.put(10, "a"),
        () => kernel.put(10, "b"),
      );
      assert.deepEqual(await kernel.run(links), ["1 a", "1 b"]);
      assert.deepEqual(seen, ["a bug"]);
    } finally {
      process.removeAllListeners("uncaughtException");
      for (const other of others) process.on("uncaughtException", other);
    }
  });
});
