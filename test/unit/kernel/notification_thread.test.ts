import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import type { NotificationListener, KernelNotifications } from "../../../kernel/notifications/notifications.ts";
import type { NotificationSource } from "../../../kernel/notifications/source.ts";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import { DescriptorFlag, isReady, pollEntries } from "../../../kernel/syscall/poll_calls.ts";

const HEADER_SIZE = 16;
const BOUND_MILLISECONDS = 5000;
const links: NotificationSource = { kind: "route", groups: [] };
const calls = nodeSyscalls();

describe("kernel/notifications thread", () => {
  const started: KernelNotifications[] = [];

  afterEach(async () => {
    for (const events of started.splice(0)) await events.stop();
  });

  it("pollInBackground waits in a thread until a descriptor is readable", async () => {
    const fds = [0, 0].map((initial) => calls.eventfd(initial, DescriptorFlag.CLOEXEC | DescriptorFlag.NONBLOCK));
    const entries = pollEntries([...fds, 9999]);
    const ready = (): readonly boolean[] => [0, 1, 2].map((index) => isReady(entries, index));
    assert.equal(await calls.pollInBackground(entries, 0), 1);
    assert.deepEqual(ready(), [false, false, true]);
    const one = pollEntries(fds);
    const waiting = calls.pollInBackground(one, BOUND_MILLISECONDS);
    calls.write(fds[1] ?? -1, counted(1n));
    assert.equal(await waiting, 1);
    assert.deepEqual(
      [0, 1].map((index) => isReady(one, index)),
      [false, true],
    );
    for (const fd of fds) calls.close(fd);
  });

  it("a command during a wait is carried out at once", async () => {
    const patient = (entries: Uint8Array): Promise<number> => calls.pollInBackground(entries, 2 * BOUND_MILLISECONDS);
    const events = start({ ...calls, pollInBackground: patient });
    const late = pause(BOUND_MILLISECONDS, "late", { ref: false });
    const done = events.subscribe(links, listener({})).then((subscription) => {
      subscription.close();
      return "done";
    });
    assert.equal(await Promise.race([done, late]), "done", "the source is opened before the wait ends by itself");
    await events.stop();
  });

  it("DAEMON-10: a listener that finds no descriptor learns later that messages were lost, and a poll without memory is repeated", async () => {
    const datagrams = [datagram()];
    let polls = 0;
    const events = start({
      ...calls,
      receiveFrom: (_fd, buffer) => {
        const next = datagrams.shift() ?? new Uint8Array();
        buffer.set(next);
        return next.length > 0 ? next.length : -Errno.EAGAIN;
      },
      pollInBackground: async (entries, milliseconds) => {
        if (polls++ === 0) return -Errno.ENOMEM;
        if (datagrams.length === 0 || entries.length === 8) return calls.pollInBackground(entries, milliseconds);
        new DataView(entries.buffer).setInt16(14, 1, littleEndian);
        return 1;
      },
    });
    const told = new Promise((resolve) => {
      const onMessages = (): never => {
        throw new SyscallError("open", Errno.EMFILE);
      };
      void events.subscribe(links, listener({ onMessages, onOverrun: () => resolve("overrun") }));
    });
    assert.equal(await told, "overrun");
  });

  it("an exception of a listener is uncaught and visible, and the thread reads on", async () => {
    const seen: unknown[] = [];
    const others = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", (error: Error) => seen.push(error.message));
    try {
      const datagrams = [datagram(), datagram()];
      // The thread's eventfd replaces the socket: it is readable as soon as there are commands.
      const events = start({
        ...calls,
        receiveFrom: (_fd, buffer) => {
          const next = datagrams.shift();
          if (next === undefined) return -Errno.EAGAIN;
          buffer.set(next);
          return next.length;
        },
        pollInBackground: async (entries, milliseconds) => {
          if (datagrams.length === 0) return calls.pollInBackground(entries, milliseconds);
          const view = new DataView(entries.buffer);
          for (let at = 6; at < entries.length; at += 8) view.setInt16(at, at === 6 ? 0 : 1, littleEndian);
          return 1;
        },
      });
      let reported = 0;
      const throwing = (): never => {
        reported++;
        throw new Error("a bug");
      };
      await events.subscribe(links, listener({ onMessages: throwing }));
      for (let left = 500; left > 0 && seen.length === 0; left--) await pause(5);
      assert.deepEqual(seen, ["a bug"]);
      assert.equal(reported, 1);
      (await events.subscribe(links, listener({}))).close();
    } finally {
      process.removeAllListeners("uncaughtException");
      for (const other of others) process.on("uncaughtException", other);
    }
  });

  function start(over: Parameters<typeof startNotificationThread>[0]["calls"]): KernelNotifications {
    const events = startNotificationThread({ calls: over });
    started.push(events);
    return events;
  }
});

function listener(over: Partial<NotificationListener>): NotificationListener {
  return { onMessages: () => {}, onOverrun: () => {}, onFailure: () => {}, ...over };
}

/** Returns one rtnetlink message without a body. */
function datagram(): Uint8Array {
  const bytes = new Uint8Array(HEADER_SIZE);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, HEADER_SIZE, littleEndian);
  view.setUint16(4, 16, littleEndian);
  return bytes;
}

function counted(value: bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(value).buffer);
}
