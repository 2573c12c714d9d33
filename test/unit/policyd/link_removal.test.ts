import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import type { Request } from "../../../kernel/netlink/message.ts";
import type { Reply } from "../../../kernel/netlink/socket.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { LinkWriter } from "../../../policyd/attachments/link_removal.ts";
import { LinkRemoval } from "../../../policyd/attachments/link_removal.ts";

/** A writer whose removals end when they are told to. */
function slowWriter(missing: readonly string[] = []): LinkWriter & {
  readonly removals: { readonly operation: string; readonly end: (error?: NetlinkError) => void }[];
  readonly grouped: string[][];
} {
  const removals: { readonly operation: string; readonly end: (error?: NetlinkError) => void }[] = [];
  const grouped: string[][] = [];
  return {
    removals,
    grouped,
    batch: (requests) => {
      grouped.push(requests.map(({ operation }) => operation));
      return requests.map((request): Reply => {
        const isMissing = missing.some((name) => request.operation.endsWith(name));
        return {
          request,
          error: isMissing ? new NetlinkError(request.operation, Errno.ENODEV) : undefined,
          messages: [],
        };
      });
    },
    inBackground: (request: Request) =>
      new Promise((settle) => {
        removals.push({ operation: request.operation, end: (error) => settle({ request, error, messages: [] }) });
      }),
  };
}

describe("policyd/attachments link removal", () => {
  it("removes what comes during one removal together after it, each settled when its own is gone (DEL-01)", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const settled: string[] = [];
    const remove = (name: string): Promise<void> => removal.remove(name).then(() => void settled.push(name));
    const all = [remove("dbv1"), remove("dbv2")];
    await setImmediate();
    await setImmediate();
    assert.equal(writer.removals.length, 1);
    for (let i = 3; i < 100; i++) all.push(remove(`dbv${i}`));
    await setImmediate();
    assert.deepEqual([writer.removals.length, settled.length], [1, 0]);
    writer.removals[0]?.end();
    await setImmediate();
    await setImmediate();
    assert.deepEqual(settled, ["dbv1", "dbv2"]);
    assert.equal(writer.removals.length, 2);
    assert.equal(writer.grouped[1]?.length, 97);
    assert.notEqual(writer.removals[0]?.operation, writer.removals[1]?.operation, "a group of its own each time");
    writer.removals[1]?.end();
    await Promise.all(all);
  });

  it("takes a link that is not there for removed, and does not remove an empty group (DEL-01)", async () => {
    const writer = slowWriter(["dbv1"]);
    await new LinkRemoval(writer).remove("dbv1");
    assert.equal(writer.removals.length, 0);
  });

  it("leaves nobody waiting when the kernel does not answer (DEL-01)", async () => {
    const writer = slowWriter();
    const silent = new DrawbridgeError("ERR_NETLINK", "netlink: no answer from the kernel");
    const removal = new LinkRemoval({
      ...writer,
      batch: () => {
        throw silent;
      },
    });
    await Promise.all(["dbv1", "dbv2"].map((name) => assert.rejects(removal.remove(name), silent)));
  });

  it("tells each one when the kernel refuses, and goes on (DEL-01)", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const refused = assert.rejects(removal.remove("dbv1"), { errnoName: "EBUSY" });
    await setImmediate();
    await setImmediate();
    writer.removals[0]?.end(new NetlinkError("delete", Errno.EBUSY));
    await refused;
    const next = removal.remove("dbv2");
    await setImmediate();
    await setImmediate();
    writer.removals[1]?.end();
    await next;
  });
});
