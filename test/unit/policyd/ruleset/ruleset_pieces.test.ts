import assert from "node:assert/strict";
import type { Change } from "../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { Element, SetDefinition, Table } from "../../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../../kernel/nftables/socket.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { rulesetBench, rulesetOver } from "../../../support/ruleset/bench.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import { FaultyNftables } from "../../../support/ruleset/faulty_nftables.ts";
import { sampleAddress } from "../../../support/ruleset/sample.ts";
import { TickingClock } from "../../../support/policy/live/ticking_clock.ts";
import { randomFrom } from "../../../support/random.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const SYNC_PERIOD = 30_000;
/** Several times the number that is read in a turn of the event loop. */
const MANY = 5000;
const STEPS = roundsFor("random steps", 500, 1500);

const targets: SetDefinition = { name: "targets", key: ["ipv4_addr"], data: ["inet_service"] };
/** A set that comes and goes. */
const loose: SetDefinition = { name: "loose", key: ["ipv4_addr"], data: ["inet_service"] };
const table: Table = withVersion({ family: "inet", name: "drawbridge", sets: [targets], chains: [] });

function setUp(kernel: Nftables) {
  return rulesetBench(kernel, [table], { syncPeriod: SYNC_PERIOD });
}

function element(number: number, port = 80): Element {
  return { key: [sampleAddress(number)], data: [port] };
}

function claims(from: number, to: number, { name: set } = targets, port = 80): readonly DesiredElement[] {
  return Array.from({ length: to - from }, (_, index) => ({ table, set, element: element(from + index, port) }));
}

function changeOf(kind: "add elements" | "delete elements", elements: readonly Element[], set = targets): Change {
  return { kind, table, set, elements };
}

const LONGEST_PAUSE = 60;

/** Runs an action in each turn of the event loop while the ruleset does its work. */
function inTurns(clock: FakeClock, turns: number, action: (turn: number) => void, pause = () => 0): void {
  let turn = 0;
  const next = (): void => {
    action(turn);
    if (++turn < turns) clock.after(pause(), next);
  };
  clock.after(0, next);
  clock.pass(LONGEST_PAUSE * turns);
}

/** A kernel that counts the lists of elements, the unfinished ones, and the pieces that it has returned. */
function counting(): {
  readonly kernel: FakeNftables;
  readonly seen: { lists: number; open: number; pieces: number };
} {
  const kernel = new FakeNftables();
  const seen = { lists: 0, open: 0, pieces: 0 };
  const elementsInPieces = kernel.elementsInPieces.bind(kernel);
  kernel.elementsInPieces = function* counted(reference, set) {
    seen.lists++;
    seen.open++;
    try {
      for (const piece of elementsInPieces(reference, set)) {
        seen.pieces++;
        yield piece;
      }
    } finally {
      seen.open--;
    }
  };
  return { kernel, seen };
}

describe("policyd/ruleset: reading a large set", () => {
  it("DP-08: a change that is committed while the set is read stays, and does not count as foreign", () => {
    const kernel = new FakeNftables();
    const { clock, ruleset } = setUp(kernel);
    ruleset.claim("first", claims(0, 100));
    ruleset.claim("base", claims(100, MANY));
    ruleset.start();
    ruleset.verify();
    inTurns(clock, 60, (turn) => {
      // The first elements have been read by then, and new ones are read last.
      ruleset.claim("first", claims(turn % 7, 100, targets, 80 + (turn % 2)));
      ruleset.claim("last", turn % 3 === 0 ? [] : claims(MANY, MANY + turn));
      if (turn % 10 === 0) ruleset.verify();
    });
    ruleset.claim("last", []);
    clock.pass(10 * SYNC_PERIOD);
    const { isReconciled, repairs, failures, lastError } = ruleset.status();
    assert.deepEqual({ isReconciled, repairs, failures }, { isReconciled: true, repairs: 0, failures: 0 }, lastError);
    assert.equal(kernel.elements(table, targets).length, MANY - (59 % 7));
  });

  it("DP-08: an element that was removed after its piece was made does not count as present", () => {
    const kernel = new FakeNftables();
    const clock = new TickingClock(0);
    const ruleset = rulesetOver(kernel, [table], { clock, minSyncPeriod: 1000, syncPeriod: SYNC_PERIOD });
    const provide = (): void => {
      ruleset.provide("loose", { table, sets: [loose], chains: [] });
      ruleset.claim("loose", claims(0, MANY, loose));
    };
    provide();
    ruleset.start();
    assert.equal(ruleset.flush(), true);
    ruleset.verify();
    ruleset.claim("loose", [...claims(0, MANY / 5, loose), ...claims(MANY / 2, MANY, loose)]);
    assert.equal(ruleset.flush(), true);
    clock.tick();
    ruleset.claim("loose", []);
    ruleset.provide("loose", { table, sets: [], chains: [] });
    clock.tick();
    provide();
    assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    assert.equal(kernel.elements(table, loose).length, MANY);
    assert.deepEqual([ruleset.status().repairs, ruleset.status().failures], [0, 0]);
    ruleset.stop();
  });

  it("DP-08 DP-12: a set that goes and comes back while it is read ends up as desired", () => {
    for (const stays of [false, true]) {
      const { kernel, seen } = counting();
      const { clock, ruleset } = setUp(kernel);
      ruleset.provide("loose", { table, sets: [loose], chains: [] });
      ruleset.claim("loose", claims(0, MANY, loose));
      ruleset.start();
      ruleset.flush();
      ruleset.verify();
      inTurns(clock, 30, (turn) => {
        if (turn === 19) ruleset.verify();
        if (turn !== 0 && turn !== 20) return;
        assert.equal(seen.open, 1);
        ruleset.claim("loose", []);
        ruleset.provide("loose", { table, sets: [], chains: [] });
        ruleset.flush();
        if (turn === 20 && !stays) return;
        ruleset.provide("loose", { table, sets: [loose], chains: [] });
        ruleset.claim("loose", claims(turn, MANY, loose, 81));
        ruleset.verify();
      });
      const { isReconciled, repairs, failures, lastError } = ruleset.status();
      assert.deepEqual({ isReconciled, repairs, failures }, { isReconciled: true, repairs: 0, failures: 0 }, lastError);
      assert.equal(kernel.elements(table, loose).length, stays ? MANY - 20 : 0);
      assert.equal(seen.open, 0);
    }
  });

  it("DP-08 DP-11: a batch that fails during a read ends the list and loses no change", () => {
    const { kernel, seen } = counting();
    const { clock, ruleset } = setUp(kernel);
    ruleset.claim("base", claims(0, MANY));
    ruleset.start();
    ruleset.verify();
    assert.equal(seen.open, 1);
    const commit = kernel.commit.bind(kernel);
    kernel.commit = () => {
      throw new Error("refused");
    };
    ruleset.claim("another", claims(MANY, MANY + 1));
    ruleset.flush();
    assert.equal(seen.open, 0);
    kernel.commit = commit;
    clock.pass(1000);
    assert.deepEqual(
      [ruleset.status().isReconciled, ruleset.status().repairs, ruleset.status().failures],
      [true, 0, 1],
    );
    assert.equal(kernel.elements(table, targets).length, MANY + 1);
    ruleset.verify();
    ruleset.stop();
    assert.equal(seen.open, 0);
  });

  it(`DP-08 DP-11: after ${STEPS} random changes of ours and others, kernel and mirror are as desired`, function () {
    this.timeout(120_000);
    const seed = countedSeed();
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    const below = (limit: number): number => Math.floor(random() * limit);
    const kernel = new FakeNftables();
    const faulty = new FaultyNftables(kernel, random, { commit: 0.03, read: 0.0015 });
    const { clock, ruleset } = setUp(faulty);
    const wanted = new Map<string, readonly DesiredElement[]>([["base", claims(0, MANY / 2)]]);
    for (const [owner, claimed] of wanted) ruleset.claim(owner, claimed);
    ruleset.start();
    ruleset.flush();
    let harms = 0;
    const harm = (): void => {
      const present = kernel.elements(table, targets);
      const one = present[below(present.length)] ?? element(0);
      const kinds: readonly (readonly Change[])[] = [
        [changeOf("add elements", [element(800_000 + below(1000))])],
        [changeOf("delete elements", [one])],
        [changeOf("delete elements", [one]), changeOf("add elements", [{ ...one, data: [9] }])],
        random() < 0.1 ? [{ kind: "flush set", table, set: targets }] : [],
      ];
      try {
        kernel.commit(kinds[below(kinds.length)] ?? []);
        harms++;
      } catch {
        // The element does not exist, or exists already.
      }
    };
    const step = (): void => {
      const kind = random();
      if (kind < 0.5) {
        const owner = `o${below(30)}`;
        const from = below(MANY);
        const claimed = random() < 0.3 ? [] : claims(from, from + below(10), targets, 80 + below(3));
        wanted.set(owner, claimed);
        ruleset.claim(owner, claimed);
      } else if (kind < 0.53) {
        const claimed = claims(below(100), MANY / 2 + below(100));
        wanted.set("base", claimed);
        ruleset.claim("base", claimed);
      } else if (kind < 0.65) harm();
      if (kind > 0.6 && kind < 0.7) ruleset.verify();
    };
    // Most steps are one turn apart; after a few of them there is time for a retry.
    inTurns(clock, STEPS, step, () => (random() < 0.05 ? LONGEST_PAUSE : 0));
    faulty.setRates({ commit: 0, read: 0 });
    clock.pass(10_000);
    ruleset.verify();
    clock.pass(3 * SYNC_PERIOD);
    const { isReconciled, repairs, failures, lastError } = ruleset.status();
    console.log(`      ${harms} harms, ${repairs} repairs, ${failures} failures`);
    assert.ok(isReconciled && harms > 20 && repairs > 10 && failures > 0, lastError);
    const other = new FakeNftables();
    const fresh = setUp(other).ruleset;
    for (const [owner, claimed] of wanted) fresh.claim(owner, claimed);
    fresh.start();
    fresh.flush();
    assert.equal(contentOf(kernel, table), contentOf(other, table));
    // An element that is missing could not be deleted, and an unknown one would stay.
    for (const owner of wanted.keys()) ruleset.claim(owner, []);
    ruleset.flush();
    assert.deepEqual([ruleset.status().failures, kernel.elements(table, targets).length], [failures, 0]);
  });
});
