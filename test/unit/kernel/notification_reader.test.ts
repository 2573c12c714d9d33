import assert from "node:assert/strict";
import { exceptPort } from "../../../kernel/notifications/port_filter.ts";
import { NotificationReader } from "../../../kernel/notifications/reader.ts";
import type { NotificationSource } from "../../../kernel/notifications/source.ts";
import type { Command, Report } from "../../../kernel/notifications/reader_message.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { kernelAnswer } from "./scripted_syscalls.ts";

const WAKE_FD = 3;
const FIRST_SOCKET = 10;
const POLLIN = 1;
const links: NotificationSource = { kind: "route", groups: ["link"] };
const log: NotificationSource = { kind: "nflog", group: 4, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 };

/** A datagram with its sender's port ID, or the errno of a receive. */
type Step = number | { readonly datagram: Uint8Array; readonly portId?: number };

/** A fake kernel of event sockets. It records what is done to them, and runs an action in each round. */
class FakeKernel {
  readonly done: string[] = [];
  readonly reports: Report[] = [];
  readonly queues = new Map<number, Step[]>();
  /** The action of each poll, by round; after the last one the reader stops. */
  readonly rounds: (() => readonly Command[] | void)[] = [];
  /** The descriptors of each poll. */
  readonly polled: (readonly number[])[] = [];
  /** Results of the next sockets, if they fail. */
  readonly refusals = new Map<number, number>();
  /** The attached programs, by descriptor; {@link filterResult} is the kernel's answer. */
  readonly filters = new Map<number, Uint8Array>();
  filterResult = 0;
  #commands: Command[] = [];
  #nextFd = FIRST_SOCKET;

  async run(...commands: readonly Command[]): Promise<readonly Report[]> {
    this.#commands = [...commands];
    const reader = new NotificationReader({
      calls: {
        ...nodeSyscalls(),
        socket: () => {
          const fd = this.#nextFd++;
          const errno = this.refusals.get(fd);
          if (errno !== undefined) return -errno;
          this.done.push(`open ${fd}`);
          this.queues.set(fd, this.queues.get(fd) ?? []);
          return fd;
        },
        bind: (fd) => this.#note(`bind ${fd}`),
        setsockopt: () => 0,
        attachFilter: (fd, program) => {
          this.filters.set(fd, program.slice());
          return this.filterResult;
        },
        send: (fd, data) => {
          this.queues.get(fd)?.push({ datagram: kernelAnswer(1) });
          return data.length;
        },
        receiveFrom: (fd, buffer, _flags, sender) => this.#receive(fd, buffer, sender),
        close: (fd) => this.#note(`close ${fd}`),
        read: () => 8,
        pollInBackground: async (entries) => this.#poll(entries),
      },
      wakeFd: WAKE_FD,
      takeCommands: () => this.#commands.splice(0),
      post: (report) => this.reports.push(report),
      inside: (action) => {
        this.done.push("enter");
        return action();
      },
    });
    await reader.run();
    return this.reports;
  }

  put(fd: number, ...steps: readonly (number | string | Step)[]): void {
    const queue = this.queues.get(fd) ?? assert.fail(`no socket ${fd}`);
    queue.push(
      ...steps.map((step) => (typeof step === "string" ? { datagram: new TextEncoder().encode(step) } : step)),
    );
  }

  #note(what: string): number {
    this.done.push(what);
    return 0;
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
    this.#commands.push(...(this.rounds.shift()?.() ?? (this.rounds.length === 0 ? [{ kind: "stop" } as const] : [])));
    const view = new DataView(entries.buffer);
    const fds = Array.from({ length: entries.length / 8 }, (_, i) => view.getInt32(i * 8, littleEndian));
    this.polled.push(fds);
    for (const [i, fd] of fds.entries()) {
      const isReadable = fd === WAKE_FD ? this.#commands.length > 0 : (this.queues.get(fd)?.length ?? 0) > 0;
      view.setInt16(i * 8 + 6, isReadable ? POLLIN : 0, littleEndian);
    }
    return 1;
  }
}

/** Prints reports in short, with datagrams by their texts. */
function reported(reports: readonly Report[]): readonly string[] {
  return reports.map((report) => {
    const what =
      report.kind === "datagrams"
        ? report.datagrams.map((bytes) => new TextDecoder().decode(bytes)).join(",")
        : report.kind;
    return `${report.id} ${report.kind === "failed" ? report.error.message : what}`;
  });
}

describe("kernel/notifications reader", () => {
  it("the reader opens sources inside the namespace, posts datagrams in batches, and closes everything when it is stopped", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, "a", "b"),
      () => kernel.put(11, "c"),
      () => [],
    );
    const reports = await kernel.run({ kind: "open", id: 1, source: links }, { kind: "open", id: 2, source: log });
    assert.deepEqual(reported(reports), ["1 opened", "2 opened", "1 a,b", "2 c"]);
    assert.deepEqual(kernel.done, [
      "enter",
      "open 10",
      "bind 10",
      "enter",
      "open 11",
      "bind 11",
      "close 10",
      "close 11",
    ]);
  });

  it("posted datagrams are copies, which the next read does not change", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, "a"),
      () => kernel.put(10, "b"),
    );
    assert.deepEqual(reported(await kernel.run({ kind: "open", id: 1, source: links })), ["1 opened", "1 a", "1 b"]);
  });

  it("a datagram that a process, not the kernel, sent to the group is dropped", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(() => kernel.put(10, { datagram: Uint8Array.of(120), portId: 77 }, "a"));
    assert.deepEqual(reported(await kernel.run({ kind: "open", id: 1, source: links })), ["1 opened", "1 a"]);
  });

  it("DP-19: the kernel filters out the changes of our own socket, and the reader does so itself where the kernel refuses", async () => {
    for (const filterResult of [0, -Errno.EPERM]) {
      const kernel = new FakeKernel();
      kernel.filterResult = filterResult;
      const about = (portId: number): Uint8Array => {
        const message = new Uint8Array(16);
        new DataView(message.buffer).setUint32(12, portId, littleEndian);
        return message;
      };
      kernel.rounds.push(() => kernel.put(10, { datagram: about(77) }, { datagram: about(78) }));
      const source = { kind: "nftables", exceptPortId: 77 } as const;
      const reports = await kernel.run({ kind: "open", id: 1, source });
      const datagrams = reports.flatMap((report) => (report.kind === "datagrams" ? report.datagrams : []));
      assert.deepEqual(datagrams, [about(78)]);
      assert.deepEqual([...kernel.filters], [[10, exceptPort(77)]]);
    }
    const plain = new FakeKernel();
    await plain.run({ kind: "open", id: 1, source: { kind: "nftables" } });
    assert.equal(plain.filters.size, 0);
  });

  it("an overrun of a state source is reported once, and what was queued before it is dropped", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, "a", Errno.ENOBUFS, "stale", "stale"),
      () => kernel.put(11, "new"),
    );
    assert.deepEqual(reported(await kernel.run({ kind: "open", id: 1, source: links })), [
      "1 opened",
      "1 a",
      "1 overrun",
      "1 new",
    ]);
    const opened = kernel.done.indexOf("open 11");
    assert.ok(
      opened > 0 && opened < kernel.done.indexOf("close 10"),
      "the new socket is open before the old one is closed",
    );
  });

  it("a log continues with the queued packets after an overrun, since each stands for itself", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => kernel.put(10, Errno.ENOBUFS, "kept"),
      () => [],
    );
    assert.deepEqual(reported(await kernel.run({ kind: "open", id: 1, source: log })), [
      "1 opened",
      "1 overrun",
      "1 kept",
    ]);
  });

  it("one busy source is read in turns, with other sources in between", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => {
        kernel.put(10, ...Array.from({ length: 200 }, () => "x"));
        kernel.put(11, "y");
      },
      () => [],
    );
    const reports = reported(
      await kernel.run({ kind: "open", id: 1, source: links }, { kind: "open", id: 2, source: links }),
    );
    assert.deepEqual(
      reports.map((report) => report.replaceAll(/[^xy]/g, "").length),
      [0, 0, 128, 1, 72],
    );
  });

  it("a source that cannot be opened or that breaks is reported, and the others continue", async () => {
    const kernel = new FakeKernel();
    kernel.refusals.set(11, Errno.EPROTONOSUPPORT);
    kernel.rounds.push(
      () => kernel.put(10, Errno.ENETDOWN),
      () => kernel.put(12, "a"),
    );
    const open = (id: number): Command => ({ kind: "open", id, source: links });
    assert.deepEqual(reported(await kernel.run(open(1), open(2), open(3))), [
      "1 opened",
      "2 netlink event socket 0: EPROTONOSUPPORT (protocol not supported)",
      "3 opened",
      "1 read netlink event socket: ENETDOWN (network is down)",
      "3 a",
    ]);
    assert.deepEqual(
      kernel.done.filter((what) => what.startsWith("close")),
      ["close 10", "close 12"],
    );
  });

  it("a close command closes one source, and the others stay open", async () => {
    const kernel = new FakeKernel();
    kernel.rounds.push(
      () => [{ kind: "close", id: 1 }],
      () => kernel.put(11, "b"),
    );
    const open = (id: number): Command => ({ kind: "open", id, source: links });
    assert.deepEqual(reported(await kernel.run(open(1), open(2))), ["1 opened", "2 opened", "2 b"]);
    assert.deepEqual(kernel.polled.at(-1), [3, 11]);
  });
});
