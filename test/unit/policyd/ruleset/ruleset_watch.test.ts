import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import type { ReceivedMessage } from "../../../../kernel/netlink/message.ts";
import { type Change, requestsOf } from "../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { RulesetWatch, UnheardCommits } from "../../../../policyd/ruleset/ruleset_watch.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { rulesetOver } from "../../../support/ruleset/bench.ts";
import { sampleClaims, sampleTables } from "../../../support/ruleset/sample.ts";

/** The notifications of a change, which have the form of its request. */
function reported(change: Change): readonly ReceivedMessage[] {
  return requestsOf([change]).map(({ type, body }) => ({ type, flags: 0, sequence: 0, body }));
}

describe("policyd/ruleset ruleset watch", () => {
  const tables = sampleTables();
  const [inet, bridge] = tables;
  let kernel: FakeNftables;
  let events: FakeKernelNotifications;
  let clock: FakeClock;
  let ruleset: Ruleset;
  let watch: RulesetWatch;

  beforeEach(async () => {
    kernel = new FakeNftables();
    events = new FakeKernelNotifications();
    clock = new FakeClock();
    const logger = recordingLogger();
    ruleset = rulesetOver(kernel, tables, { clock, logger });
    ruleset.claim("a", sampleClaims(1, 1));
    watch = new RulesetWatch({ ruleset, clock, logger, portId: 77 });
    await watch.start(events);
    ruleset.start();
  });

  function harm(): Change {
    assert.ok(inet !== undefined);
    const change = { kind: "delete table", table: inet } as const;
    kernel.commit([change]);
    return change;
  }

  it("the subscription omits the daemon's own commits (DP-08)", () => {
    assert.deepEqual(events.sources, [{ kind: "nftables", exceptPortId: 77 }]);
  });

  it("a notification about a table has that table repaired (DP-09)", () => {
    events.emit("nftables", reported(harm()));
    clock.pass(20);
    assert.ok(inet !== undefined && kernel.table(inet) !== undefined);
    assert.equal(ruleset.status().replacements, tables.length + 1);
  });

  it("a notification causes no read of other tables (DP-08)", () => {
    harm();
    assert.ok(inet !== undefined && bridge !== undefined);
    events.emit("nftables", reported({ kind: "delete table", table: { family: "inet", name: "stranger" } }));
    events.emit("nftables", reported({ kind: "delete table", table: bridge }));
    clock.pass(1000);
    assert.equal(kernel.table(inet), undefined);
  });

  it("DP-08: nobody listens to a large batch of our own, and if another program commits meanwhile, all tables are read", () => {
    const unheard = new UnheardCommits(kernel);
    unheard.watch = watch;
    const batch = (count: number): readonly Change[] => {
      const elements = Array.from({ length: count }, (_, key) => ({ key: [key] }));
      return inet === undefined ? [] : [{ kind: "add elements", table: inet, set: { name: "a", key: [] }, elements }];
    };
    const listeners = (count: number, ...inside: (() => unknown)[]): number => {
      let seen = -1;
      unheard.around(batch(count), () => {
        seen = events.sources.length;
        for (const one of inside) one();
      });
      return seen;
    };
    const own = (): void => kernel.commit([{ kind: "add table", table: { family: "inet", name: "own" } }]);
    const { pending } = clock;
    assert.deepEqual([listeners(1000, own), listeners(1001, own)], [1, 0]);
    assert.deepEqual([events.sources.length, clock.pending], [1, pending], "no check is due");
    listeners(1001, harm, own);
    clock.pass(20);
    assert.ok(inet !== undefined && kernel.table(inet) !== undefined);
    const refusal = (): never => assert.fail("refused");
    assert.throws(() => listeners(1001, refusal), /refused/);
  });

  for (const [what, tell] of [
    ["notifications are lost", () => events.overrun("nftables")],
    [
      "a notification cannot be read",
      () => events.emit("nftables", [{ type: 10 << 8, flags: 0, sequence: 0, body: Uint8Array.of(1) }]),
    ],
  ] as const) {
    it(`all tables are read when ${what} (DP-09)`, () => {
      harm();
      tell();
      clock.pass(20);
      assert.ok(inet !== undefined && kernel.table(inet) !== undefined);
    });
  }

  for (const isAtStart of [false, true]) {
    it(`the subscription is renewed ${isAtStart ? "where the kernel refuses at first" : "when the kernel has ended it"}, and all tables are read then (DP-09)`, async () => {
      if (isAtStart) {
        watch.stop();
        watch = new RulesetWatch({ ruleset, clock, logger: recordingLogger(), portId: 77 });
        events.refuseNext("nftables", new Error("no memory"));
        await watch.start(events);
      } else events.fail("nftables", new Error("no memory"));
      assert.deepEqual(events.sources, []);
      harm();
      clock.pass(5000);
      await turn();
      assert.equal(events.sources.length, 1);
      clock.pass(20);
      assert.ok(inet !== undefined && kernel.table(inet) !== undefined);
      events.emit("nftables", reported(harm()));
      clock.pass(20);
      assert.ok(kernel.table(inet) !== undefined);
      events.fail("nftables", new Error("no memory"));
      watch.stop();
      clock.pass(5000);
      await turn();
      assert.deepEqual(events.sources, []);
    });
  }

  it("a stopped watch does nothing", () => {
    const change = harm();
    events.emit("nftables", reported(change));
    watch.stop();
    clock.pass(1000);
    assert.ok(inet !== undefined);
    assert.equal(kernel.table(inet), undefined);
  });
});
