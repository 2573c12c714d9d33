import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeKernelEvents } from "../../../kernel/events/fake_events.ts";
import { FakeClock } from "../../../policyd/clock.ts";
import { KeptSubscription } from "../../../policyd/kept_subscription.ts";

describe("policyd kept subscription", () => {
  let events: FakeKernelEvents;
  let clock: FakeClock;
  let told: string[];
  let kept: KeptSubscription;

  beforeEach(() => {
    events = new FakeKernelEvents();
    clock = new FakeClock();
    told = [];
    kept = new KeptSubscription({
      clock,
      source: { kind: "nftables", exceptPortId: 77 },
      listener: { onMessages: () => told.push("messages"), onOverrun: () => told.push("overrun") },
      retryMilliseconds: 100,
      onRefused: (reason) => told.push(`refused: ${reason}`),
      onOpen: (wasRefused) => told.push(wasRefused ? "open after all" : "open"),
    });
  });

  async function pass(milliseconds: number): Promise<void> {
    clock.pass(milliseconds);
    await turn();
  }

  it("says once why it is refused, however often it is, and that it is open after all", async () => {
    events.refuseNext("nftables", new Error("no memory"));
    await kept.start(events);
    events.refuseNext("nftables", new Error("no memory at all"));
    await pass(100);
    assert.equal(kept.refusal, "no memory at all");
    await pass(99);
    assert.deepEqual(told, ["refused: no memory"]);
    await pass(1);
    assert.equal(kept.refusal, undefined);
    events.emit("nftables", []);
    events.overrun("nftables");
    assert.deepEqual(told, ["refused: no memory", "open after all", "messages", "overrun"]);
  });

  it("says again why, when it has ended anew", async () => {
    await kept.start(events);
    for (const reason of ["one", "other"]) {
      events.fail("nftables", new Error(reason));
      await pass(100);
    }
    assert.deepEqual(told, ["open", "refused: one", "open after all", "refused: other", "open after all"]);
  });

  it("is closed again where it opens behind its stop, and says nothing", async () => {
    const started = kept.start(events);
    kept.stop();
    await started;
    assert.deepEqual(events.sources, []);
    assert.deepEqual(told, []);
  });

  it("is not tried again behind its stop", async () => {
    events.refuseNext("nftables", new Error("no memory"));
    await kept.start(events);
    kept.stop();
    assert.equal(clock.pending, 0);
  });
});
