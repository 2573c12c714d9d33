import assert from "node:assert/strict";
import type { Change } from "../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { goTo, rule } from "../../../../kernel/nftables/model/statement.ts";
import { obsoleteTables } from "../../../../policyd/node/tables/tables.ts";
import { rulesetBench } from "../../../support/ruleset/bench.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import { emptyTargets } from "../../../support/ruleset/empty_targets.ts";
import {
  podClaims,
  profileChains,
  profileSets,
  profileTable,
  provideJudged,
  withdrawJudged,
} from "../../../support/ruleset/provided.ts";
import { touched } from "../../../support/ruleset/touched.ts";

/** Several times what one batch takes. */
const MANY = 60;
const table = profileTable();

function setUp(kernel = new FakeNftables()) {
  return rulesetBench(kernel, [table]);
}

function wholeOf(from: number, to: number): string {
  const fresh = setUp();
  provideJudged(fresh.ruleset, [from, to]);
  fresh.ruleset.start();
  assert.equal(fresh.ruleset.flush(), true);
  return contentOf(fresh.kernel, table, setsOf(from, to));
}

function setsOf(from: number, to: number): ReturnType<typeof profileSets> {
  return Array.from({ length: to - from }, (_, index) => profileSets(from + index)).flat();
}

/** The kernel's approximate work for a batch: a new set, chain or rule counts as 1. */
function work(changes: readonly Change[]): number {
  return changes.reduce((sum, change) => {
    if ("elements" in change) return sum + 1 + change.elements.length / 16;
    return sum + (change.kind.startsWith("add") ? 1 : 1 / 8);
  }, 0);
}

describe("policyd/ruleset: slices", () => {
  it("DP-13: a great many new objects come in slices before the one batch that names them", () => {
    const { kernel, clock, ruleset } = setUp();
    ruleset.start();
    const reported: number[] = [];
    ruleset.committed.subscribe(({ differences }) =>
      reported.push(differences.reduce((sum, { added }) => sum + added.length, 0)),
    );
    provideJudged(ruleset, [0, MANY]);
    clock.pass(0);
    const batches = kernel.commits.slice(1);
    assert.ok(batches.length > 5, `${batches.length} batches`);
    for (const batch of batches.slice(0, -1)) {
      assert.deepEqual(
        touched(batch, "add elements").filter((name) => name === "verdicts" || name === "known"),
        [],
      );
      assert.ok(work(batch) < 100, `${work(batch)} units`);
    }
    assert.deepEqual(
      new Set(touched(batches.at(-1), "add elements").filter((name) => !/\d/.test(name))),
      new Set(["verdicts", "known"]),
    );
    assert.equal(contentOf(kernel, table, setsOf(0, MANY)), wholeOf(0, MANY));
    assert.deepEqual(reported, [5 * MANY], "followers learn of all changes at once");
  });

  it("DP-13: inForce waits for all slices, and returns false when they fail", async () => {
    const { kernel, clock, ruleset } = setUp();
    assert.equal(await ruleset.inForce(), false, "the ruleset has not started");
    ruleset.start();
    provideJudged(ruleset, [0, 1]);
    const little = ruleset.inForce();
    assert.equal(ruleset.status().isReconciled, true, "little is committed at once");
    assert.equal(await little, true);
    provideJudged(ruleset, [1, MANY]);
    const before = kernel.commits.length;
    const waiting = ruleset.inForce();
    assert.equal(kernel.commits.length, before + 1, "a slice");
    assert.equal(ruleset.status().isReconciled, false);
    clock.pass(0);
    assert.equal(await waiting, true);
    assert.equal(ruleset.status().isReconciled, true);
    provideJudged(ruleset, [MANY, 2 * MANY]);
    const failing = ruleset.inForce();
    kernel.commit = () => {
      throw new Error("refused");
    };
    clock.pass(0);
    assert.equal(await failing, false);
    const again = ruleset.inForce();
    clock.pass(0);
    assert.equal(await again, false);
  });

  it("DP-13: at the first start no hook exists before all other objects", () => {
    const { kernel, clock, ruleset } = setUp();
    provideJudged(ruleset, [0, MANY]);
    ruleset.start();
    clock.pass(0);
    assert.ok(kernel.commits.length > 5);
    for (const batch of kernel.commits.slice(0, -1)) {
      assert.deepEqual(
        touched(batch, "add chain").filter((name) => name === "forward"),
        [],
      );
      assert.deepEqual(
        touched(batch, "add rule").filter((name) => name === "forward" || name === "decide"),
        [],
      );
    }
    assert.equal(contentOf(kernel, table, setsOf(0, MANY)), wholeOf(0, MANY));
    assert.equal(ruleset.status().replacements, 1);
  });

  for (const many of [1, MANY]) {
    it(`POL-94 DAEMON-10: the tables from before go in the batch that adds the hooks, also after the kernel has refused it, ${many} profiles`, () => {
      const obsolete = obsoleteTables({ policies: true });
      const kernel = new FakeNftables();
      kernel.commit(obsolete.map((one) => ({ kind: "add table", table: one })));
      const remaining = (): number => obsolete.filter((one) => kernel.head(one) !== undefined).length;
      const hasHooks = (): boolean => kernel.chains(table).some(({ hook }) => hook !== undefined);
      const commit = kernel.commit.bind(kernel);
      let refusals = 3;
      kernel.commit = (changes) => {
        const isLast = changes.some((change) => change.kind === "delete table");
        if (isLast && refusals > 0) {
          refusals--;
          throw new Error("refused");
        }
        commit(changes);
        assert.equal(remaining(), hasHooks() ? 0 : obsolete.length);
      };
      const { ruleset, clock } = rulesetBench(kernel, [table], { obsolete });
      provideJudged(ruleset, [0, many]);
      ruleset.start();
      clock.pass(10_000);
      assert.deepEqual([refusals, hasHooks(), ruleset.status().isReconciled], [0, true, true]);
      const { commits } = ruleset.status();
      ruleset.verify();
      clock.pass(10_000);
      assert.equal(ruleset.status().commits, commits, "an empty batch would look like another program's");
    });
  }

  it("DP-13: a daemon that starts over an old table leaves its rules in force until the new ones are written", () => {
    const first = setUp();
    provideJudged(first.ruleset, [0, MANY]);
    first.ruleset.start();
    first.ruleset.flush();
    first.ruleset.stop();
    const { kernel, clock, ruleset } = setUp(first.kernel);
    const before = kernel.commits.length;
    provideJudged(ruleset, [MANY, 2 * MANY]);
    ruleset.start();
    clock.pass(0);
    const batches = kernel.commits.slice(before);
    const batchOf = (kind: Change["kind"], name: string): number =>
      batches.findIndex((batch) => touched(batch, kind).includes(name));
    const change = batchOf("delete elements", "verdicts");
    assert.equal(batchOf("add elements", "verdicts"), change, "pods go from one profile to the other at once");
    assert.equal(batchOf("flush chain", "forward"), change);
    assert.ok(batchOf("flush chain", "first0") >= change && batchOf("delete chain", "first0") >= change);
    for (const batch of batches) assert.ok(work(batch) < 250, `${work(batch)} units`);
    assert.equal(contentOf(kernel, table, setsOf(MANY, 2 * MANY)), wholeOf(MANY, 2 * MANY));
  });

  it("DP-13: a chain in force that is written again never leads to a chain without rules, whenever a daemon ends", () => {
    for (let ending = 1; ending <= 8; ending++) {
      const first = setUp();
      for (let number = 0; number < MANY; number++) {
        const [whole] = profileChains(number);
        assert.ok(whole !== undefined);
        const old = { name: whole.name, rules: [rule(goTo("dropped"))] };
        first.ruleset.provide(`profile ${number}`, { table, sets: profileSets(number), chains: [old] });
        first.ruleset.claim(`pod ${number}`, podClaims(number, number));
      }
      first.ruleset.start();
      assert.equal(first.ruleset.flush(), true);
      first.ruleset.stop();
      const { kernel } = first;
      const commit = kernel.commit.bind(kernel);
      let count = 0;
      const found: string[] = [];
      kernel.commit = (changes) => {
        if (++count === ending) throw new Error("refused");
        commit(changes);
        found.push(...emptyTargets(kernel, table).map((one) => `after batch ${count}: ${one}`));
      };
      const second = setUp(kernel);
      provideJudged(second.ruleset, [0, MANY]);
      second.ruleset.start();
      second.clock.pass(0);
      second.ruleset.stop();
      assert.ok(count >= ending, `${count} batches`);
      // The third daemon finds chains that are empty.
      const third = setUp(kernel);
      provideJudged(third.ruleset, [0, MANY]);
      third.ruleset.start();
      third.clock.pass(0);
      assert.deepEqual(found, [], `batch ${ending} being refused`);
      assert.deepEqual([third.ruleset.status().isReconciled, third.ruleset.status().failures], [true, 0]);
      assert.equal(contentOf(kernel, table, setsOf(0, MANY)), wholeOf(0, MANY));
    }
  });

  it("DP-13: a great many objects are removed in slices after the batch that stops naming them", () => {
    const { kernel, clock, ruleset } = setUp();
    provideJudged(ruleset, [0, 4 * MANY]);
    ruleset.start();
    ruleset.flush();
    const before = kernel.commits.length;
    withdrawJudged(ruleset, [0, 4 * MANY]);
    clock.pass(0);
    const batches = kernel.commits.slice(before);
    assert.ok(batches.length > 2, `${batches.length} batches`);
    assert.deepEqual(touched(batches[0], "flush chain", "delete chain", "delete set"), []);
    assert.equal(contentOf(kernel, table), wholeOf(0, 0));
  });
});
