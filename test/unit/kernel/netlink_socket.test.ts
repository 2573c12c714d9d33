import assert from "node:assert/strict";
import { walkInSlices } from "../../../kernel/conntrack/sliced_walk.ts";
import { nftablesCounters } from "../../../kernel/nftables/decode/counters.ts";
import { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import { NetlinkRouteKernel } from "../../../policyd/routes/route_kernel/netlink_kernel.ts";
import { decodeMessages } from "../../../kernel/netlink/message.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { deleteLink, dumpLinks, getLink } from "../../../kernel/route/link.ts";
import { dumpEnd, kernelAnswer, kernelMessage, type ReceiveStep, ScriptedSyscalls } from "./scripted_syscalls.ts";

const NEWLINK = 16;
const MULTI = 2;
const DUMP_INTR = 0x10;
const remove = deleteLink({ name: "dbv0" });

function open(...steps: readonly (Uint8Array | ReceiveStep)[]): { syscalls: ScriptedSyscalls; socket: NetlinkSocket } {
  const syscalls = new ScriptedSyscalls(steps.map((step) => (step instanceof Uint8Array ? { datagram: step } : step)));
  return { syscalls, socket: new NetlinkSocket(syscalls, 0) };
}

function link(sequence: number, index: number, flags = 0): Uint8Array {
  return kernelMessage(NEWLINK, sequence, Uint8Array.of(...Array.from({ length: 15 }, () => 0), index), flags);
}

function lastBytes(messages: readonly { readonly body: Uint8Array }[]): readonly (number | undefined)[] {
  return messages.map(({ body }) => body.at(-1));
}

describe("kernel/netlink/socket", () => {
  it("a send or receive that a signal interrupted is repeated", () => {
    const { syscalls, socket } = open(Errno.EINTR, Errno.EINTR, kernelAnswer(1));
    syscalls.sendResults.push(-Errno.EINTR, -Errno.EINTR);
    assert.deepEqual(socket.request(remove), []);
    assert.equal(syscalls.sent.length, 1);
    assert.equal(syscalls.unread, 0);
  });

  it("the descriptor is closed where an option or the port is refused", () => {
    const refused = -Errno.EPERM;
    for (const [results, message] of [
      [{ setsockopt: [0, 0, 0, refused] }, /^netlink receive timeout: EPERM/],
      [{ setsockopt: [0, 0, 0, 0, refused] }, /^netlink send buffer: EPERM/],
      [{ setsockopt: [0, 0, 0, 0, 0, refused] }, /^netlink receive buffer: EPERM/],
      [{ bind: [refused] }, /^netlink port 777: EPERM/],
    ] as const) {
      const syscalls = new ScriptedSyscalls();
      for (const [call, list] of Object.entries(results)) Object.assign(syscalls.openingResults, { [call]: [...list] });
      assert.throws(() => new NetlinkSocket(syscalls, 0, { bufferBytes: 4096, portId: 777 }), { message });
      assert.deepEqual(syscalls.closedDescriptors, [7]);
    }
  });

  it("a failed open closes no descriptor, and a second that fails closes the first", () => {
    const none = new ScriptedSyscalls();
    none.openingResults.socket = [-Errno.EMFILE];
    assert.throws(() => new NetlinkSocket(none, 0), /EMFILE/);
    assert.deepEqual(none.closedDescriptors, []);
    const one = new ScriptedSyscalls();
    one.openingResults.socket = [0, -Errno.EMFILE];
    assert.throws(() => new NftablesSocket(one), /EMFILE/);
    assert.deepEqual(one.closedDescriptors, [7]);
  });

  it("late answers to an earlier request, and acknowledgements of it, are dropped", () => {
    const { socket } = open(Errno.EAGAIN, kernelAnswer(1, Errno.ENODEV), link(1, 9), link(2, 5), kernelAnswer(2));
    assert.throws(() => socket.request(remove), { code: "ERR_NETLINK" });
    assert.deepEqual(lastBytes(socket.request(getLink({ index: 5 }))), [5]);
  });

  it("datagrams that do not come from the kernel are dropped", () => {
    const forged = kernelAnswer(1, Errno.EPERM);
    const { socket, syscalls } = open({ datagram: forged, portId: 4321 }, kernelAnswer(1));
    assert.deepEqual(socket.request(remove), []);
    assert.equal(syscalls.unread, 0);
  });

  it("a datagram longer than the buffer is refused", () => {
    const { socket } = open({ datagram: kernelAnswer(1), length: 70_000 });
    assert.throws(() => socket.request(remove), {
      code: "ERR_NETLINK_MALFORMED",
      message: "netlink datagram: 70000 bytes; expected at most 65536",
    });
  });

  it("answers of a batch are paired by sequence number, with a refusal in the middle and only the last acknowledged", () => {
    const { socket, syscalls } = open(kernelAnswer(2, Errno.EEXIST), link(3, 8), kernelAnswer(4));
    const requests = [remove, remove, getLink({ index: 8 }), remove];
    const replies = socket.batch(requests);
    assert.deepEqual(
      replies.map(({ error }) => error?.errnoName),
      [undefined, "EEXIST", undefined, undefined],
    );
    assert.deepEqual(
      replies.map(({ messages }) => messages.length),
      [0, 0, 1, 0],
    );
    const sent = [...decodeMessages(syscalls.sent[0] ?? new Uint8Array(0))];
    assert.deepEqual(
      sent.map(({ sequence, flags }) => [sequence, flags & 5]),
      [
        [1, 1],
        [2, 1],
        [3, 1],
        [4, 5],
      ],
    );
  });

  it("a long batch is sent in parts whose answers fit the receive buffer, and an empty one sends nothing", () => {
    const answers = Array.from({ length: 100 }, (_, i) => kernelAnswer(i + 1, i === 70 ? Errno.EEXIST : 0));
    const { socket, syscalls } = open(...answers);
    assert.deepEqual(socket.batch([]), []);
    assert.equal(syscalls.sent.length, 0);
    const replies = socket.batch(Array.from({ length: 100 }, () => remove));
    assert.deepEqual(
      syscalls.sent.map((datagram) => [...decodeMessages(datagram)].length),
      [32, 32, 32, 4],
    );
    assert.equal(
      replies.findIndex(({ error }) => error !== undefined),
      70,
    );
  });

  it("a list is read to its end before the exception of a visit is thrown", () => {
    const { socket, syscalls } = open(link(1, 1, MULTI), link(1, 2, MULTI), dumpEnd(1));
    const visited: unknown[] = [];
    const visit = (_all: unknown, { body }: { readonly body: Uint8Array }): void => {
      visited.push(body.at(-1));
      throw new Error("visit");
    };
    assert.throws(() => socket.collect(dumpLinks(), () => {}, visit), { message: "visit" });
    assert.deepEqual([visited, syscalls.unread], [[1], 0]);
  });

  it("a walk whose visitor throws, and a list of counters that its reader abandons, leave the rest of the kernel's list unread", async () => {
    const walk = open(link(1, 1, MULTI), link(1, 2, MULTI), dumpEnd(1));
    const see = (): void => {
      throw new Error("visit");
    };
    const calls = {
      sendInBackground: (fd: number, data: Uint8Array) => Promise.resolve(walk.syscalls.send(fd, data)),
    };
    await assert.rejects(walkInSlices(walk.socket, {}, { see }, calls), { message: "visit" });
    assert.equal(walk.syscalls.unread, 2);
    const rule = kernelMessage(NEWLINK, 1, new Uint8Array(4), MULTI);
    const { syscalls } = open(rule, rule, dumpEnd(1));
    const list = nftablesCounters(syscalls).rules({ family: "inet", name: "t" });
    for (const _ of list) break;
    assert.equal(syscalls.unread, 2);
  });

  it("a list of routes with a malformed message is read to its end in slices before the error is thrown", () => {
    const malformed = kernelMessage(NEWLINK, 1, new Uint8Array(4), MULTI);
    const { syscalls } = open(malformed, link(1, 2, MULTI), dumpEnd(1));
    syscalls.openingResults.socket = [0, -Errno.EPROTONOSUPPORT];
    const files = { open: () => -Errno.ENOENT };
    const slices = new NetlinkRouteKernel(Object.assign(syscalls, files) as never).read();
    const unread: number[] = [];
    const readAll = (): void => {
      while (slices.next().done !== true) unread.push(syscalls.unread);
    };
    assert.throws(readAll, { code: "ERR_NETLINK_MALFORMED" });
    assert.deepEqual([unread, syscalls.unread], [[2, 1], 0]);
  });

  it("the error comes after ten interrupted dumps", () => {
    const interrupted = Array.from({ length: 11 }, (_, i) => dumpEnd(i + 1, 0, MULTI | DUMP_INTR));
    const { socket, syscalls } = open(...interrupted);
    assert.throws(() => socket.dump(dumpLinks()), { message: "list links: changed during each of 10 dumps (EINTR)" });
    assert.equal(syscalls.unread, 1);
  });

  it("the errno with which a dump is refused or ends is thrown", () => {
    const refused = open(kernelAnswer(1, Errno.EOPNOTSUPP));
    assert.throws(() => refused.socket.dump(dumpLinks()), {
      message: "list links: operation not supported (EOPNOTSUPP)",
    });
    const failed = open(link(1, 1, MULTI), dumpEnd(1, -Errno.ENODEV));
    assert.throws(() => failed.socket.dump(dumpLinks()), { message: "list links: no such device (ENODEV)" });
  });

  it("the rest of a failed dump is dropped when the next request or dump is made", () => {
    const rest = [{ datagram: Uint8Array.of(1, 2, 3) }, link(1, 1, MULTI), dumpEnd(1)];
    const requesting = open(...rest, kernelAnswer(2));
    assert.throws(() => requesting.socket.dump(dumpLinks()), { code: "ERR_NETLINK_MALFORMED" });
    assert.deepEqual(requesting.socket.request(remove), []);
    const dumping = open(...rest, link(2, 5, MULTI), dumpEnd(2));
    assert.throws(() => dumping.socket.dump(dumpLinks()), { code: "ERR_NETLINK_MALFORMED" });
    assert.deepEqual(lastBytes(dumping.socket.dump(dumpLinks())), [5]);
  });
});
