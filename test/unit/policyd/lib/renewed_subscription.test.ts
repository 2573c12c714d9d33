import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { RenewedSubscription } from "../../../../policyd/lib/renewed_subscription.ts";

describe("policyd: a kept subscription", () => {
  let events: FakeKernelNotifications;
  let clock: FakeClock;
  let reported: string[];
  let kept: RenewedSubscription;

  beforeEach(() => {
    events = new FakeKernelNotifications();
    clock = new FakeClock();
    reported = [];
    kept = new RenewedSubscription({
      clock,
      source: { kind: "nftables", exceptPortId: 77 },
      listener: { onMessages: () => reported.push("messages"), onOverrun: () => reported.push("overrun") },
      onRefused: (reason) => reported.push(`refused: ${reason}`),
      onOpen: (wasRefused) => reported.push(wasRefused ? "open after all" : "open"),
    });
  });

  async function pass(milliseconds: number): Promise<void> {
    clock.pass(milliseconds);
    await turn();
  }

  it("a refusal is reported once, however often it is repeated, and so is its end", async () => {
    events.refuseNext("nftables", new Error("no memory"));
    await kept.start(events);
    events.refuseNext("nftables", new Error("no memory at all"));
    await pass(5000);
    assert.equal(kept.refusal, "no memory at all");
    await pass(4999);
    assert.deepEqual(reported, ["refused: no memory"]);
    await pass(1);
    assert.equal(kept.refusal, undefined);
    events.emit("nftables", []);
    events.overrun("nftables");
    assert.deepEqual(reported, ["refused: no memory", "open after all", "messages", "overrun"]);
  });

  it("a reason is reported again for each end of the subscription", async () => {
    await kept.start(events);
    for (const reason of ["one", "other"]) {
      events.fail("nftables", new Error(reason));
      await pass(5000);
    }
    assert.deepEqual(reported, ["open", "refused: one", "open after all", "refused: other", "open after all"]);
  });

  it("a subscription that opens after its stop is closed again and reports nothing", async () => {
    const started = kept.start(events);
    kept.stop();
    await started;
    assert.deepEqual(events.sources, []);
    assert.deepEqual(reported, []);
  });

  it("a refused subscription is not retried after its stop", async () => {
    events.refuseNext("nftables", new Error("no memory"));
    await kept.start(events);
    kept.stop();
    assert.equal(clock.pending, 0);
  });
});
