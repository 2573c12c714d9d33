import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { NetlinkError } from "../../../../kernel/netlink/error.ts";
import type { ReceivedMessage, Request } from "../../../../kernel/netlink/message.ts";
import type { Reply } from "../../../../kernel/netlink/socket.ts";
import { littleEndian } from "../../../../kernel/byte_order.ts";
import { getLink, RTM_NEWLINK } from "../../../../kernel/route/link.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { LinkRemoval, type LinkWriter, type RemovedLink } from "../../../../policyd/attachments/link_removal.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";

const BRIDGE_INDEX = 7;

/** A request that ends when the test says so. */
interface Running {
  readonly operation: string;
  readonly end: (error?: DrawbridgeError) => void;
}

/** A writer with a bridge `drawbridge0`, whose removals and questions about links end when the test says so. */
function slowWriter(refusals: Readonly<Record<string, number>> = {}): LinkWriter & {
  readonly removals: Running[];
  readonly questions: Running[];
  readonly batches: string[][];
} {
  const removals: Running[] = [];
  const questions: Running[] = [];
  const batches: string[][] = [];
  return {
    removals,
    questions,
    batches,
    batch: (requests) => {
      if (requests.length > 0) batches.push(requests.map(({ operation }) => operation));
      return requests.map((request): Reply => {
        const [, errno] = Object.entries(refusals).find(([part]) => request.operation.includes(part)) ?? [];
        const error = errno === undefined ? undefined : new NetlinkError(request.operation, errno);
        const isBridge = error === undefined && request.operation === "get link drawbridge0";
        return { request, error, messages: isBridge ? [bridgeMessage()] : [] };
      });
    },
    inBackground: (request: Request) =>
      new Promise((settle, refuse) => {
        const end = (error?: DrawbridgeError): void => {
          if (error === undefined || error instanceof NetlinkError) settle({ request, error, messages: [] });
          else refuse(error);
        };
        (request.operation.startsWith("delete") ? removals : questions).push({ operation: request.operation, end });
      }),
  };
}

/**
 * The description of a link, which is the request by its name with an index in the second field of struct ifinfomsg.
 */
function bridgeMessage(): ReceivedMessage {
  const body = getLink({ name: "drawbridge0" }).body.slice();
  new DataView(body.buffer).setInt32(4, BRIDGE_INDEX, littleEndian);
  return { type: RTM_NEWLINK, flags: 0, sequence: 1, body };
}

function linkOf(hostInterface: string): RemovedLink {
  return attachmentRecord({ hostInterface });
}

/** Waits until the requests of this turn of the event loop are under way. */
async function turns(): Promise<void> {
  await setImmediate();
  await setImmediate();
}

describe("policyd/attachments link removal", () => {
  it("links that come during a removal are removed together after it, and each settles when it is gone (DEL-01)", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const settled: string[] = [];
    const remove = (name: string): Promise<void> => removal.remove(linkOf(name)).then(() => void settled.push(name));
    const all = [remove("dbv1"), remove("dbv2")];
    await turns();
    assert.equal(writer.removals.length, 1);
    for (let i = 3; i < 100; i++) all.push(remove(`dbv${i}`));
    await setImmediate();
    assert.deepEqual([writer.removals.length, settled.length], [1, 0]);
    writer.removals[0]?.end();
    await turns();
    assert.deepEqual(settled, ["dbv1", "dbv2"]);
    assert.equal(writer.removals.length, 2);
    assert.equal(writer.batches.find(([first]) => first?.endsWith("dbv3"))?.length, 97);
    assert.notEqual(writer.removals[0]?.operation, writer.removals[1]?.operation, "each removal has a separate group");
    writer.removals[1]?.end();
    await Promise.all(all);
  });

  it("each caller gets the kernel's refusal, and the next removal begins (DEL-01)", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const refused = assert.rejects(removal.remove(linkOf("dbv1")), { errnoName: "EBUSY" });
    await turns();
    writer.removals[0]?.end(new NetlinkError("delete", Errno.EBUSY));
    await refused;
    const next = removal.remove(linkOf("dbv2"));
    await turns();
    writer.removals[1]?.end();
    await next;
  });

  it("DEL-02: missing neighbours and those that went with their bridge count as forgotten, and a refusal is reported", async () => {
    for (const [refusals, error] of [
      [{ "delete neighbour 10.": Errno.ENOENT }, undefined],
      [{ "delete neighbour": Errno.ENODEV }, undefined],
      [{ "get link": Errno.ENODEV }, undefined],
      [{ "delete neighbour fd": Errno.EPERM }, "EPERM"],
    ] as const) {
      const writer = slowWriter(refusals);
      const gone = new LinkRemoval(writer).remove(linkOf("dbv1"));
      await turns();
      writer.removals[0]?.end();
      if (error === undefined) await gone;
      else await assert.rejects(gone, { errnoName: error });
    }
  });

  it("DEL-01: callers are answered when the links are gone, and the next removal begins when the kernel has answered", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const settled: string[] = [];
    const remove = (name: string): Promise<void> => removal.remove(linkOf(name)).then(() => void settled.push(name));
    const first = ["dbv1", "dbv2"].map(remove);
    await turns();
    assert.deepEqual(
      writer.questions.map(({ operation }) => operation),
      ["change link dbv1"],
    );
    writer.questions[0]?.end();
    await turns();
    assert.deepEqual(settled, [], "a link that still exists is not gone");
    writer.questions[1]?.end(new NetlinkError("change", Errno.ENODEV));
    await Promise.all(first);
    const second = remove("dbv3");
    await turns();
    assert.deepEqual([writer.removals.length, settled.length], [1, 2], "the kernel still runs the first removal");
    writer.removals[0]?.end();
    await turns();
    writer.removals[1]?.end();
    await second;
  });

  it("DEL-01: where no question is answered, the removal's own answer decides", async () => {
    const unanswered = new DrawbridgeError("ERR_NETLINK", "netlink: no answer from the kernel");
    for (const [answers, refusal] of [
      [[undefined, undefined, undefined], undefined],
      [[unanswered, unanswered, unanswered], undefined],
      [[undefined, new NetlinkError("change", Errno.EPERM)], Errno.EBUSY],
    ] as const) {
      const writer = slowWriter();
      let isSettled = false;
      const gone = new LinkRemoval(writer).remove(linkOf("dbv1")).finally(() => (isSettled = true));
      for (const [index, answer] of answers.entries()) {
        await turns();
        writer.questions[index]?.end(answer);
      }
      await turns();
      assert.ok(!isSettled && writer.questions.length <= 3);
      writer.removals[0]?.end(refusal === undefined ? undefined : new NetlinkError("delete", refusal));
      if (refusal === undefined) await gone;
      else await assert.rejects(gone, { errnoName: "EBUSY" });
    }
  });

  it("DEL-01: a removal that fails after its links are gone is nobody's error, and the next one begins", async () => {
    const writer = slowWriter();
    const removal = new LinkRemoval(writer);
    const first = removal.remove(linkOf("dbv1"));
    await turns();
    writer.questions[0]?.end(new NetlinkError("change", Errno.ENODEV));
    await first;
    const second = removal.remove(linkOf("dbv2"));
    writer.removals[0]?.end(new DrawbridgeError("ERR_NETLINK", "netlink: no answer from the kernel"));
    await turns();
    writer.removals[1]?.end();
    await second;
  });
});
