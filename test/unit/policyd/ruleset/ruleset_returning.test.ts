import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import {
  podClaims,
  profileSets,
  profileTable,
  provideJudged,
  withdrawJudged,
} from "../../../support/ruleset/provided.ts";
import { sampleAddress } from "../../../support/ruleset/sample.ts";
import { TickingClock } from "../../../support/policy/live/ticking_clock.ts";

const table = profileTable();
/** Several times the number that is written, read or removed in one turn of the event loop. */
const PROFILES = 170;
/** A similar number in one set. */
const MANY_ELEMENTS = 2000;
/** The set with these elements. */
const LARGE = "ports0";
const [BEFORE, AFTER] = [1, 2];
/** The number of turns from one tested turn to the next. */
const STRIDE = 5;

interface Node {
  readonly kernel: FakeNftables;
  readonly clock: TickingClock;
  readonly ruleset: Ruleset;
}

function setUp(kernel = new FakeNftables()): Node {
  const clock = new TickingClock(0);
  const periods = { minSyncPeriod: 0, syncPeriod: 3_600_000 };
  return {
    kernel,
    clock,
    ruleset: new Ruleset({ kernel, clock, logger: recordingLogger(), tables: [table], ...periods }),
  };
}

/** Provides all profiles with different elements for each value, one profile with very many. */
function provide(ruleset: Ruleset, value: number): void {
  provideJudged(ruleset, [0, PROFILES], value);
  const many = Array.from({ length: MANY_ELEMENTS }, (_, index): DesiredElement => ({
    table,
    set: LARGE,
    element: { key: [sampleAddress(0x40000 + value * MANY_ELEMENTS + index), 443] },
  }));
  ruleset.claim("many", many);
}

function withdraw(ruleset: Ruleset): void {
  ruleset.claim("many", []);
  withdrawJudged(ruleset, [0, PROFILES]);
}

/** A kernel with the tables of a daemon that has ended. */
function leftBehind(): FakeNftables {
  const { kernel, ruleset } = setUp();
  provide(ruleset, BEFORE);
  ruleset.start();
  assert.equal(ruleset.flush(), true);
  ruleset.stop();
  return kernel;
}

/** @returns the number of turns of the event loop until the ruleset is synced */
function inTurns({ clock, ruleset }: Node, action: (turn: number) => void = () => {}): number {
  let turns = 0;
  const next = (): void => {
    action(++turns);
    if (!ruleset.status().isReconciled) clock.after(0, next);
  };
  clock.after(0, next);
  clock.pass(0);
  return turns;
}

function content(kernel: FakeNftables): string {
  return contentOf(kernel, table, Array.from({ length: PROFILES }, (_, number) => profileSets(number)).flat());
}

describe("policyd/ruleset: sets that come back with other elements", () => {
  const expected = ((): string => {
    const { kernel, ruleset } = setUp();
    provide(ruleset, AFTER);
    ruleset.start();
    ruleset.flush();
    return content(kernel);
  })();

  /** Tests a change in each turn that a node needs, with a separate node for every `step`th turn. */
  function inEachTurn(begin: () => Node, happens: (ruleset: Ruleset, turnsSince: number) => void, step = 1): void {
    const turns = inTurns(begin());
    assert.ok(turns > 3, `${turns} turns`);
    for (let first = 1; first <= turns; first += step) {
      const node = begin();
      inTurns(node, (turn) => happens(node.ruleset, turn - first));
      const { isReconciled, failures, lastError } = node.ruleset.status();
      assert.deepEqual([isReconciled, failures, lastError], [true, 0, undefined], `turn ${first} of ${turns}`);
      assert.equal(content(node.kernel), expected, `turn ${first} of ${turns}`);
    }
  }

  it("DP-11 DP-13: sets that come back while they are removed in slices have the new elements", () => {
    const going = (): Node => {
      const node = setUp();
      provide(node.ruleset, BEFORE);
      node.ruleset.start();
      node.ruleset.flush();
      withdraw(node.ruleset);
      return node;
    };
    inEachTurn(going, (ruleset, turns) => {
      if (turns === 0) provide(ruleset, AFTER);
    });
  });

  it("DP-11 DP-14: sets that come back while a new daemon reads or removes an earlier one's have the new elements", () => {
    const reading = (): Node => {
      const node = setUp(leftBehind());
      node.ruleset.start();
      return node;
    };
    inEachTurn(reading, (ruleset, turns) => {
      if (turns === 0) provide(ruleset, AFTER);
    });
  });

  it("DP-11 DP-14: sets that are unwanted for one turn while a daemon reads them have the new elements", () => {
    const reading = (): Node => {
      const node = setUp(leftBehind());
      provide(node.ruleset, BEFORE);
      node.ruleset.start();
      return node;
    };
    const happens = (ruleset: Ruleset, turns: number): void => {
      if (turns === 0) withdraw(ruleset);
      if (turns === 1) provide(ruleset, AFTER);
    };
    inEachTurn(reading, happens, 3);
  });

  it("DP-09: sets that a daemon had not read do not count as repairs", () => {
    const { kernel, clock, ruleset } = setUp(leftBehind());
    const before = kernel.commits.length;
    ruleset.start();
    while (kernel.commits.length === before) clock.tick();
    provide(ruleset, AFTER);
    ruleset.verify();
    clock.pass(0);
    assert.deepEqual([ruleset.status().isReconciled, ruleset.status().repairs], [true, 0]);
    assert.equal(content(kernel), expected);
  });

  it("DP-09: elements that are removed in any turn of a daemon's read are back afterwards", () => {
    const [, known] = table.sets;
    assert.ok(known !== undefined);
    for (let first = 0; ; first += STRIDE) {
      const { kernel, clock, ruleset } = setUp(leftBehind());
      provide(ruleset, BEFORE);
      const elements = podClaims(0, 0).flatMap(({ set, element }) => (set === known.name ? [element] : []));
      const before = kernel.commits.length;
      ruleset.start();
      for (let turn = 0; turn < first; turn++) clock.tick();
      if (kernel.commits.length > before) return assert.ok(first > STRIDE, `${first} turns`);
      kernel.commit([{ kind: "delete elements", table, set: known, elements }]);
      ruleset.verify();
      clock.pass(0);
      assert.equal(ruleset.status().isReconciled, true);
      assert.equal(kernel.elements(table, known).length, PROFILES, `turn ${first}`);
    }
  });
});
