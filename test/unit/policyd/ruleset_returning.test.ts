import assert from "node:assert/strict";
import { FakeNftables } from "../../../kernel/nftables/fake/fake_nftables.ts";
import type { Claim } from "../../../policyd/dataplane/claim.ts";
import { Ruleset } from "../../../policyd/dataplane/ruleset.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { contentOf } from "../../support/dataplane/content.ts";
import {
  podClaims,
  profileSets,
  profileTable,
  provideJudged,
  withdrawJudged,
} from "../../support/dataplane/provided.ts";
import { sampleAddress } from "../../support/dataplane/sample.ts";
import { TickingClock } from "../../support/policy/live/ticking_clock.ts";

const table = profileTable();
/** Several times what is written, read or taken away in one turn of the event loop. */
const PROFILES = 250;
/** As many, in one set. */
const MANY_ELEMENTS = 3000;
/** The set they are in. */
const LARGE = "ports0";
const [BEFORE, AFTER] = [1, 2];
/** From one turn that is tried to the next. */
const STRIDE = 10;

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

/** All profiles with other elements for each value, one of which has very many. */
function provide(ruleset: Ruleset, value: number): void {
  provideJudged(ruleset, [0, PROFILES], value);
  const many = Array.from({ length: MANY_ELEMENTS }, (_, index): Claim => ({
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

/** A kernel with what a daemon left that has ended. */
function leftBehind(): FakeNftables {
  const { kernel, ruleset } = setUp();
  provide(ruleset, BEFORE);
  ruleset.start();
  assert.equal(ruleset.flush(), true);
  ruleset.stop();
  return kernel;
}

/** @returns in how many turns of the event loop the ruleset is done */
function inTurns({ clock, ruleset }: Node, action: (turn: number) => void = () => {}): number {
  let turns = 0;
  const next = (): void => {
    action(++turns);
    if (!ruleset.status().isSynced) clock.after(0, next);
  };
  clock.after(0, next);
  clock.pass(0);
  return turns;
}

function content(kernel: FakeNftables): string {
  return contentOf(kernel, table, Array.from({ length: PROFILES }, (_, number) => profileSets(number)).flat());
}

describe("policyd/ruleset whose sets come back with other elements", () => {
  const expected = ((): string => {
    const { kernel, ruleset } = setUp();
    provide(ruleset, AFTER);
    ruleset.start();
    ruleset.flush();
    return content(kernel);
  })();

  /** Has something happen in the turns that a node needs, on a node of its own for each of them or for every nth. */
  function inEachTurn(begin: () => Node, happens: (ruleset: Ruleset, turnsSince: number) => void, step = 1): void {
    const turns = inTurns(begin());
    assert.ok(turns > 3, `${turns} turns`);
    for (let first = 1; first <= turns; first += step) {
      const node = begin();
      inTurns(node, (turn) => happens(node.ruleset, turn - first));
      const { isSynced, failures, lastError } = node.ruleset.status();
      assert.deepEqual([isSynced, failures, lastError], [true, 0, undefined], `turn ${first} of ${turns}`);
      assert.equal(content(node.kernel), expected, `turn ${first} of ${turns}`);
    }
  }

  it("DP-11 DP-13: while they go in slices", () => {
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

  it("DP-11 DP-14: while a daemon that did not want them reads what another left behind, or takes it away", () => {
    const reading = (): Node => {
      const node = setUp(leftBehind());
      node.ruleset.start();
      return node;
    };
    inEachTurn(reading, (ruleset, turns) => {
      if (turns === 0) provide(ruleset, AFTER);
    });
  });

  it("DP-11 DP-14: while a daemon reads them, which did not want them for a turn", () => {
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

  it("DP-09: what a daemon had not read is nobody's harm", () => {
    const { kernel, clock, ruleset } = setUp(leftBehind());
    const before = kernel.commits.length;
    ruleset.start();
    while (kernel.commits.length === before) clock.tick();
    provide(ruleset, AFTER);
    ruleset.verify();
    clock.pass(0);
    assert.deepEqual([ruleset.status().isSynced, ruleset.status().repairs], [true, 0]);
    assert.equal(content(kernel), expected);
  });

  it("DP-09: what somebody takes away in any turn in which a daemon reads is back when it has read", () => {
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
      assert.equal(ruleset.status().isSynced, true);
      assert.equal(kernel.elements(table, known).length, PROFILES, `turn ${first}`);
    }
  });
});
