import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { BatchPace, type BatchPeriod, gatheringWindow, type Haste } from "../../../../policyd/ruleset/batch_window.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { sampleClaims, sampleTables } from "../../../support/ruleset/sample.ts";
import { randomFrom } from "../../../support/random.ts";

const SYNC_PERIOD = 3_600_000;
const ELEMENTS_OF_CLAIM = 4;

/** A ruleset whose batches take time, with a record of its batches. */
class TimedRuleset {
  readonly clock = new FakeClock();
  readonly ruleset: Ruleset;
  /** The milliseconds that a batch with this number of claims takes. */
  costOf: (claims: number) => number = () => 0;
  /** The milliseconds that each claim waited until its batch began. */
  readonly waits: number[] = [];
  /** The number of claims of each batch. */
  readonly batches: number[] = [];
  readonly #claimed: number[] = [];
  #claims = 0;

  constructor(minSyncPeriod: BatchPeriod = "adaptive") {
    const { clock } = this;
    const kernel = new FakeNftables();
    const commit = kernel.commit.bind(kernel);
    kernel.commit = (changes) => {
      const elements = changes.reduce((sum, change) => sum + ("elements" in change ? change.elements.length : 0), 0);
      const claims = elements / ELEMENTS_OF_CLAIM;
      this.batches.push(claims);
      for (const at of this.#claimed.splice(0)) this.waits.push(clock.now() - at);
      commit(changes);
      clock.spend(this.costOf(claims));
    };
    const logger = recordingLogger();
    const options = { kernel, clock, logger, tables: sampleTables(), minSyncPeriod, syncPeriod: SYNC_PERIOD };
    this.ruleset = new Ruleset({ ...options, obsolete: [] });
    this.ruleset.start();
    clock.pass(SYNC_PERIOD / 2);
    this.batches.length = 0;
  }

  claim(haste?: Haste): void {
    this.#claimed.push(this.clock.now());
    this.ruleset.claim(`claim ${this.#claims}`, sampleClaims(this.#claims++, 9), haste);
  }

  /** Claims at these times from now on, whatever else happens, and lets further time pass. */
  claimAt(times: readonly number[], further = 5000): void {
    for (const time of times) this.clock.after(time, () => this.claim());
    this.clock.pass(Math.max(...times) + further);
    assert.equal(this.ruleset.isReconciled, true);
    assert.equal(this.#claimed.length, 0, "each claim is in a batch");
  }
}

function every(milliseconds: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index * milliseconds);
}

describe("policyd/gathering", () => {
  it("SYNC-03 SYNC-07: a change after a pause is committed in the same turn", () => {
    const timed = new TimedRuleset();
    timed.claim();
    timed.clock.pass(0);
    assert.deepEqual([timed.batches, timed.waits], [[1], [0]]);
  });

  it("SYNC-07: no change waits before the first batch, for any period", () => {
    for (const minSyncPeriod of ["adaptive", 0, 1000] as const) {
      assert.equal(new BatchPace({ clock: new FakeClock(), minSyncPeriod }).wait("usual"), 0);
    }
  });

  it("SYNC-02 SYNC-07: 1,000 changes in one turn are one batch, and over some milliseconds two", () => {
    const oneTurn = new TimedRuleset();
    for (let i = 0; i < 1000; i++) oneTurn.claim();
    oneTurn.clock.pass(0);
    assert.deepEqual(oneTurn.batches, [1000]);
    const spread = new TimedRuleset();
    spread.costOf = (claims) => 0.05 * claims;
    spread.claimAt(every(0.0018, 1000));
    assert.equal(spread.batches.length, 2, spread.batches.join(" "));
    assert.ok(Math.max(...spread.waits) <= 10);
  });

  it("SYNC-07: a second burst right after a large one is gathered for at most 10 ms", () => {
    const timed = new TimedRuleset();
    timed.costOf = (claims) => 0.01 * claims;
    timed.claimAt([...every(0, 500), ...every(0.01, 500).map((time) => 8 + time)]);
    assert.deepEqual(timed.batches, [500, 500]);
    assert.ok(Math.max(...timed.waits) <= 10, `${Math.max(...timed.waits)}`);
  });

  it("SYNC-07: at 100 changes a second each change is a batch and waits at most 1 ms", () => {
    const timed = new TimedRuleset();
    timed.costOf = () => 0.3;
    timed.claimAt(every(10, 1000));
    assert.equal(timed.batches.length, 1000);
    assert.ok(Math.max(...timed.waits) <= 1, `${Math.max(...timed.waits)}`);
  });

  it("SYNC-07: while batches take at most 10 ms, no change waits longer than 10 ms", () => {
    const seed = Date.now() >>> 0;
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    for (let round = 0; round < 10; round++) {
      const timed = new TimedRuleset();
      // Each change costs little, so that batches stay below 10 ms at the highest rate here.
      const [base, each] = [2 * random(), 0.05 * random()];
      timed.costOf = (claims) => Math.min(10, base + each * claims);
      let time = 0;
      const rate = 1 + 30 * random();
      const times = Array.from({ length: 500 }, () => (time += -Math.log(1 - random()) * rate));
      timed.claimAt(times);
      // A change that comes during a batch waits for the end of the batch as well.
      const longest = Math.max(...timed.waits);
      assert.ok(longest <= 10 + 1e-6, `seed ${seed}, round ${round}: ${longest} ms`);
    }
  });

  it("SYNC-07: in overload the window grows with the batches, and half of the time is left for others", () => {
    const timed = new TimedRuleset();
    timed.costOf = (claims) => 30 + 0.02 * claims;
    timed.claimAt(every(1, 5000));
    // Without a wait there would be a batch every 30 ms, 160 of them, and nothing else would ever run.
    assert.ok(timed.batches.length < 90, `${timed.batches.length} batches`);
    const busy = timed.batches.reduce((sum, claims) => sum + timed.costOf(claims), 0);
    assert.ok(busy < 2750, `${busy} ms of 5 s`);
    assert.ok(Math.max(...timed.waits) <= 70, `${Math.max(...timed.waits)}`);
  });

  it("SYNC-07: after an overload the window is short again after one quick batch", () => {
    const timed = new TimedRuleset();
    timed.costOf = () => 200;
    timed.claimAt(every(10, 300));
    timed.costOf = () => 0.2;
    timed.waits.length = 0;
    timed.claimAt(every(5, 200));
    assert.ok(Math.max(...timed.waits.slice(-198)) <= 10);
  });

  it("SYNC-07: no change waits for more than a second, however long batches take", () => {
    assert.equal(gatheringWindow(5000, 7000), 1000);
    const timed = new TimedRuleset();
    timed.costOf = () => 4000;
    timed.claimAt([0, 1, 4001, 4002, 20_000, 20_001], 60_000);
    assert.ok(
      timed.waits.every((wait) => wait <= 5000),
      timed.waits.join(" "),
    );
  });

  it("SYNC-07: a single slow batch, such as by a pause of the machine, is not an overload", () => {
    assert.equal(gatheringWindow(300, 0.2), 10);
    assert.equal(gatheringWindow(0.2, 300), 2);
    assert.equal(gatheringWindow(300, 300), 300);
  });

  it("SYNC-07: the window is between 2 ms and a second, and never shorter for slower batches", () => {
    let before = 0;
    for (const cost of [0, 0.05, 0.2, 0.25, 0.5, 1, 1.25, 2, 9, 10, 10.1, 50, 999, 1000, 1e9]) {
      const window = gatheringWindow(cost, cost);
      assert.ok(window >= before && window >= 2 && window <= 1000, `${cost}: ${window}`);
      if (cost <= 10) assert.ok(window <= 10, `${cost}: ${window}`);
      before = window;
    }
  });

  it("DAEMON-09 SYNC-07: a clock that jumps forward gives no long window, and one that jumps back no long wait", () => {
    /** A pace with a batch between these times, now that it is this time. */
    const wait = (began: number, ended: number, now: number, minSyncPeriod: BatchPeriod): number => {
      let time = ended;
      const pace = new BatchPace({ clock: { now: () => time }, minSyncPeriod });
      pace.began(began);
      pace.ended();
      time = now;
      return pace.wait("usual");
    };
    assert.ok(wait(2000, 3_602_000, 3_602_000, "adaptive") <= 10, "the batch before it took no time");
    assert.equal(wait(5000, 1000, 1000, "adaptive"), 2, "the time that a batch took is never negative");
    assert.ok(wait(9999, 10_000, 10, "adaptive") <= 10);
    assert.equal(wait(9999, 10_000, 10, 500), 500);
    const timed = new TimedRuleset();
    timed.clock.set(-7_200_000);
    timed.claimAt(every(3, 100));
    timed.clock.set(7_200_000);
    assert.ok(Math.max(...timed.waits) <= 10);
  });

  it("SYNC-01: a configured period is kept, and with 0 each turn is a batch", () => {
    const slow = new TimedRuleset(500);
    slow.claimAt(every(10, 100));
    assert.equal(slow.batches.length, 3, "batches at once, after 500 ms and after 1 s");
    const eager = new TimedRuleset(0);
    eager.costOf = () => 5;
    eager.claimAt(every(10, 100));
    assert.equal(eager.batches.length, 100);
    assert.equal(Math.max(...eager.waits), 0);
  });

  it("SYNC-07: an urgent change waits for no window, and takes the waiting changes along", () => {
    const timed = new TimedRuleset();
    timed.costOf = () => 200;
    timed.claimAt([0, 500, 1000]);
    for (let i = 0; i < 3; i++) {
      timed.claim();
      timed.clock.pass(0);
    }
    assert.equal(timed.batches.length, 4, "the second and third change wait");
    timed.claim("urgent");
    timed.clock.pass(0);
    assert.deepEqual([timed.batches.length, timed.batches.at(-1), timed.waits.at(-1)], [5, 3, 0]);
  });

  it("SYNC-09: a change whose companion is expected waits for it for 2 ms, and both are in one batch", () => {
    const together = new TimedRuleset();
    together.claim("with its companion");
    together.clock.pass(1);
    assert.equal(together.batches.length, 0);
    together.claim();
    together.clock.pass(0);
    assert.deepEqual([together.batches, together.waits], [[2], [1, 0]]);
    const single = new TimedRuleset();
    single.claim("with its companion");
    single.clock.pass(SYNC_PERIOD / 4);
    assert.deepEqual([single.batches, single.waits], [[1], [2]]);
  });

  it("SYNC-09: with a fixed period a change whose companion is expected waits no longer than others", () => {
    const eager = new TimedRuleset(0);
    eager.claim("with its companion");
    eager.clock.pass(0);
    assert.deepEqual([eager.batches, eager.waits], [[1], [0]]);
  });
});
