import assert from "node:assert/strict";
import type { ReceivedMessage } from "../../../../../kernel/netlink/message.ts";
import { acceptUpTo, parseQueuedPacket } from "../../../../../kernel/packets/queue.ts";
import { loggerOf } from "../../../../../policyd/log/logger.ts";
import { answerHooks } from "../../../../../policyd/policies/compile/name_rules.ts";
import type { AnswerQueueListener } from "../../../../../policyd/policies/names/answer_queue.ts";
import { AnswerReader } from "../../../../../policyd/policies/names/answer_reader.ts";
import { FakeKernelNotifications } from "../../../../support/daemon/fake_notifications.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { packetBetween, ports } from "../../../../support/policy/logged_packet.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { formatRule } from "../../../../../kernel/nftables/text/rule_text.ts";

const PACKET = packetBetween(parseAddress("10.244.2.5"), parseAddress("10.244.1.7"), 17, ports(53, 40_000));

describe("the queue of DNS answers", () => {
  it("NAME-16: a verdict releases all packets up to a number, also after the number of 32 bits has begun again", () => {
    const bodies = [0x1_0002, 0x1_0000_0003].map((id) => acceptUpTo(108, id).body);
    // The queue, then NF_ACCEPT and the number.
    assert.deepEqual(
      bodies.map((body) => Buffer.from(body).toString("hex")),
      ["00010002", "00000003"].map((id) => `0000006c0c00020000000001${id}`),
    );
  });

  it("NAME-16: a queued packet is read with its number, and other messages and cut ones are not read", () => {
    const message = (type: number, attributes: string): ReceivedMessage => {
      return { type, flags: 0, sequence: 0, body: new Uint8Array(Buffer.from(`0200006c${attributes}`, "hex")) };
    };
    const header = "0b0001000001000208000200";
    assert.deepEqual(parseQueuedPacket(message(0x300, `${header}08000a0045000000`)), {
      id: 0x1_0002,
      bytes: Uint8Array.of(0x45, 0, 0, 0),
    });
    assert.deepEqual(parseQueuedPacket(message(0x300, header))?.bytes.length, 0);
    for (const [type, attributes] of [
      [0x400, header],
      [0x300, ""],
      [0x300, "0600010000010000"],
    ] as const)
      assert.equal(parseQueuedPacket(message(type, attributes)), undefined, attributes);
  });

  it("NAME-16: the rules for answers end with the queue where there is one, and their chains have other names than without", () => {
    const hooks = (hasAnswerQueue: boolean) => answerHooks({ answerLogGroup: 108, hasAnswerQueue });
    const names = (hasAnswerQueue: boolean) => hooks(hasAnswerQueue).map(({ name }) => name);
    assert.equal(new Set([...names(true), ...names(false)]).size, 6);
    const last = ([chain]: ReturnType<typeof hooks>): string =>
      chain?.rules.map((one) => formatRule(one, "inet")).join("; ") ?? "";
    assert.match(last(hooks(true)), /^limit rate 2000\/second .* group 108 .* queue flags bypass to 108$/);
    assert.doesNotMatch(last(hooks(false)), /queue/);
  });

  it("NAME-16: answers that wait are read only by the queue; when its thread ends, copies are read and that is reported", async () => {
    const events = new FakeKernelNotifications();
    let listener: AnswerQueueListener | undefined;
    const [clock, logger] = [new FakeClock(), loggerOf("error", () => assert.fail("nothing fails"))];
    const queue = {
      start: (given: AnswerQueueListener) => void (listener = given),
      stop: () => void (listener = undefined),
    };
    let taken = 0;
    const reader = new AnswerReader({ group: 108, queue, clock, logger }, (packets) => void (taken += packets.length));
    reader.start(events);
    await new Promise(setImmediate);
    assert.equal(events.sources.length, 1, "until the thread has started");
    listener?.onReady();
    listener?.onPackets([PACKET, new Uint8Array(3)]);
    assert.deepEqual([taken, events.sources, reader.problems()], [2, [], []]);
    listener?.onFailure("out of memory");
    await new Promise(setImmediate);
    assert.equal(events.sources.length, 1);
    assert.deepEqual(reader.problems(), [
      "domain names: answers are only copied: the thread of queue 108 has ended: out of memory",
    ]);
    reader.stop();
    assert.deepEqual([listener, reader.problems()], [undefined, []]);
  });
});
