import assert from "node:assert/strict";
import { FakeKernelNotifications } from "../../support/daemon/fake_notifications.ts";
import type { NotificationListener } from "../../../kernel/notifications/notifications.ts";
import { type NotificationSource, planSource, type SourcePlan } from "../../../kernel/notifications/source.ts";
import { bindLogGroup } from "../../../kernel/nflog/group.ts";

const log = { kind: "nflog", group: 4, copyBytes: 64, queueThreshold: 1, queueMilliseconds: 0 } as const;

describe("kernel/notifications source", () => {
  const plans: readonly (readonly [source: NotificationSource, plan: Omit<SourcePlan, "receiveBufferBytes">])[] = [
    [
      { kind: "route", groups: ["link", "neighbour", "ipv4-address", "ipv4-route", "ipv6-address", "ipv6-route"] },
      { protocol: 0, groups: [1, 3, 5, 7, 9, 11], requests: [], tellsState: true },
    ],
    [{ kind: "nftables" }, { protocol: 12, groups: [7], requests: [], tellsState: true }],
    [
      { kind: "conntrack", events: ["new", "update", "destroy"] },
      { protocol: 12, groups: [1, 2, 3], requests: [], tellsState: true },
    ],
    [log, { protocol: 12, groups: [], requests: [bindLogGroup(log)], tellsState: false }],
  ];
  for (const [source, expected] of plans) {
    it(`the plan of source ${source.kind} has its netlink groups and its receive buffer`, () => {
      const { receiveBufferBytes, ...plan } = planSource(source);
      assert.deepEqual(plan, expected);
      assert.equal(receiveBufferBytes, 8 * 1024 * 1024);
      assert.equal(planSource({ ...source, receiveBufferBytes: 4096 }).receiveBufferBytes, 4096);
    });
  }
});

describe("kernel/notifications fake", () => {
  const message = { type: 16, flags: 0, sequence: 0, body: new Uint8Array(0) };

  function listener(name: string, reported: string[]): NotificationListener {
    return {
      onMessages: (messages) => reported.push(`${name} ${messages.length}`),
      onOverrun: () => reported.push(`${name} overrun`),
      onFailure: (error) => reported.push(`${name} ${error.message}`),
    };
  }

  it("listeners of a kind get messages, overruns and failures until they close, fail or all is stopped", async () => {
    const [events, reported] = [new FakeKernelNotifications(), new Array<string>()];
    const links = await events.subscribe({ kind: "route", groups: ["link"] }, listener("links", reported));
    await events.subscribe({ kind: "nftables" }, listener("rules", reported));
    await events.subscribe({ kind: "nftables" }, listener("more rules", reported));
    events.emit("route", [message, message]);
    events.overrun("nftables");
    links.close();
    events.emit("route", [message]);
    events.fail("nftables", new Error("broken"));
    events.emit("nftables", [message]);
    assert.deepEqual(reported, ["links 2", "rules overrun", "more rules overrun", "rules broken", "more rules broken"]);
    assert.deepEqual(events.sources, []);
    await events.subscribe(log, listener("log", reported));
    assert.deepEqual(events.sources, [log]);
    await events.stop();
    events.emit("nflog", [message]);
    assert.equal(reported.length, 5);
    await assert.rejects(events.subscribe(log, listener("late", reported)), { code: "ERR_SYSCALL" });
  });

  it("refuseNext makes exactly the next subscription of a kind fail", async () => {
    const [events, reported] = [new FakeKernelNotifications(), new Array<string>()];
    events.refuseNext("nflog", new Error("busy"));
    await assert.rejects(events.subscribe(log, listener("log", reported)), { message: "busy" });
    await events.subscribe(log, listener("log", reported));
    events.emit("nflog", [message]);
    assert.deepEqual(reported, ["log 1"]);
  });
});
