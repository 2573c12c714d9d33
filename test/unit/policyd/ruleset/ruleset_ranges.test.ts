import assert from "node:assert/strict";
import type { Change } from "../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { SetDefinition, Table } from "../../../../kernel/nftables/model/object.ts";
import { goTo, inSet, rule } from "../../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { podClaims, profileTable } from "../../../support/ruleset/provided.ts";
import { rulesetBench } from "../../../support/ruleset/bench.ts";
import { touched } from "../../../support/ruleset/touched.ts";

const table = profileTable();
const ranges = { name: "ranges", key: ["ipv4_addr"], isInterval: true } as const;

/** A started ruleset with earlier claims. */
function begin(of: Table, kernel = new FakeNftables(), claims: readonly DesiredElement[] = []) {
  const bench = rulesetBench(kernel, [of]);
  bench.ruleset.claim("before", claims);
  bench.ruleset.start();
  bench.clock.pass(0);
  return bench;
}

/** Gives a pod a verdict by this number of ranges in each set. */
function provideJudge(ruleset: Ruleset, sets: readonly SetDefinition[], each: number): void {
  const rules = sets.map(({ name }) => rule(inSet("ip saddr", name), goTo("dropped")));
  ruleset.provide("profile 0", { table, sets, chains: [{ name: "first0", rules }] });
  const keys = Array.from({ length: each }, (_, number) => [{ first: 20 * number, last: 20 * number + 9 }]);
  ruleset.claim(
    "profile 0",
    sets.flatMap(({ name: set }) => keys.map((key) => ({ table, set, element: { key } }))),
  );
  ruleset.claim("pod 0", podClaims(0, 0));
}

/** The sets that get elements, for each batch. */
function filled(batches: readonly (readonly Change[])[]): string[][] {
  return batches.map((batch) => touched(batch, "add elements"));
}

describe("policyd/ruleset: sets of ranges", () => {
  it("DP-12: a new set of ranges exists with its elements a batch before the rules that name it", () => {
    const { kernel, clock, ruleset } = begin(table);
    const judge = { name: "first0", rules: [rule(inSet("ip saddr", ranges.name), goTo("dropped"))] };
    ruleset.provide("profile 0", { table, sets: [ranges], chains: [judge] });
    const claimRange = (last: number): void =>
      ruleset.claim("profile 0", [{ table, set: ranges.name, element: { key: [{ first: 0, last }] } }]);
    claimRange(9);
    ruleset.claim("pod 0", podClaims(0, 0));
    clock.pass(0);
    const batches = filled(kernel.commits.slice(1));
    assert.deepEqual(batches, [["ranges"], ["known", "verdicts"]]);
    claimRange(19);
    clock.pass(0);
    assert.equal(kernel.commits.length, 4, "a change of an existing set is one batch");
  });

  for (const [sets, each] of [
    [1, 800],
    [30, 1],
  ] as const) {
    it(`DP-12: ${sets} sets of ${each} ranges, more than one batch, are filled before the verdicts that use them`, () => {
      const { kernel, clock, ruleset } = begin(table);
      const many = Array.from({ length: sets }, (_, number) => ({ ...ranges, name: `ranges${number}` }));
      provideJudge(ruleset, many, each);
      clock.pass(0);
      const batches = filled(kernel.commits.slice(1));
      assert.deepEqual(batches.pop(), ["known", "verdicts"]);
      assert.ok(batches.length > 1 && !batches.flat().includes("verdicts"), JSON.stringify(batches));
      for (const set of many) assert.equal(kernel.elements(table, set).length, each);
    });
  }
});
