import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { Table } from "../../../../kernel/nftables/model/object.ts";
import { counter, drop, goTo, rule } from "../../../../kernel/nftables/model/statement.ts";
import { namesVersion } from "../../../../policyd/ruleset/schema.ts";
import { rulesetBench } from "../../../support/ruleset/bench.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import {
  podClaims,
  profileObjects,
  profileSets,
  profileTable,
  provideProfile,
  withdrawProfile,
} from "../../../support/ruleset/provided.ts";
import { sampleAddress } from "../../../support/ruleset/sample.ts";
import { touched } from "../../../support/ruleset/touched.ts";

const SYNC_PERIOD = 30_000;

function setUp(kernel = new FakeNftables(), tables: readonly Table[] = [profileTable()]) {
  return rulesetBench(kernel, tables, { syncPeriod: SYNC_PERIOD });
}

const PROFILES = [1, 2, 3];
const SETS = PROFILES.flatMap(profileSets);

/** A ruleset in force with some profiles, each of which is the verdict of a pod. */
function started(kernel?: FakeNftables): ReturnType<typeof setUp> {
  const bench = setUp(kernel);
  for (const number of PROFILES) {
    provideProfile(bench.ruleset, number);
    bench.ruleset.claim(`pod ${number}`, podClaims(number, number));
  }
  bench.ruleset.start();
  assert.deepEqual([bench.ruleset.status().isReconciled, bench.ruleset.status().lastError], [true, undefined]);
  return bench;
}

function names(kernel: FakeNftables): readonly string[] {
  const state = kernel.table(profileTable());
  const chains = [...(state?.chains.keys() ?? [])].filter((name) => !namesVersion({ name }));
  return [...chains, ...(state?.sets.keys() ?? [])].sort();
}

const STATIC_NAMES = ["decide", "dropped", "forward", "known", "verdicts"];

describe("policyd/ruleset: objects that come and go", () => {
  it("DP-12: sets and chains come a batch before the elements that name them, and go a batch after", () => {
    const { kernel, ruleset } = setUp();
    ruleset.start();
    const before = kernel.commits.length;
    provideProfile(ruleset, 1);
    ruleset.claim("pod", podClaims(1, 1));
    assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    assert.deepEqual(names(kernel), [...STATIC_NAMES, "first1", "members0", "parts1", "ports1", "second1"].sort());
    const [coming, naming, ...none] = kernel.commits.slice(before);
    assert.deepEqual([touched(coming, "add rule"), none], [["second1", "first1"], []]);
    assert.deepEqual(touched(naming, "add elements").sort(), ["known", "parts1", "verdicts"]);
    // The order does not matter before the commit.
    ruleset.provide("profile 1", { table: profileTable(), sets: [], chains: [] });
    ruleset.claim("pod", []);
    ruleset.claim("profile 1", []);
    assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    assert.deepEqual(names(kernel), STATIC_NAMES);
    const [unnaming, going, ...more] = kernel.commits.slice(before + 2);
    assert.deepEqual([touched(going, "delete set").sort(), more], [["members0", "parts1", "ports1"], []]);
    const deleted = unnaming?.filter(({ kind }) => kind === "delete elements") ?? [];
    assert.deepEqual(
      deleted.map((change) => ("set" in change ? change.set.name : "")).sort(),
      ["known", "verdicts"],
      "the elements of sets that go need no deletion",
    );
  });

  it("DP-12: a pod moves from one profile to another in one batch, after the batch with the new profile's chains", () => {
    const { kernel, ruleset } = started();
    const before = kernel.commits.length;
    withdrawProfile(ruleset, 1);
    provideProfile(ruleset, 7);
    ruleset.claim("pod 1", podClaims(1, 7));
    assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    assert.equal(ruleset.status().lastError, undefined);
    const batches = kernel.commits.slice(before);
    assert.deepEqual(
      batches.map((batch) => touched(batch, "delete elements")),
      [[], ["members0", "verdicts"], []],
    );
    assert.deepEqual(touched(batches[0], "add rule"), ["second7", "first7"]);
    assert.ok(touched(batches[1], "add elements").includes("verdicts"));
    assert.ok(names(kernel).includes("first7") && !names(kernel).includes("first1"));
  });

  it("DP-12: an object of several owners exists once, until the last owner lets go", () => {
    const { kernel, ruleset } = setUp();
    ruleset.start();
    for (const owner of ["a", "b"]) ruleset.provide(owner, profileObjects(1));
    ruleset.flush();
    const before = kernel.commits.length;
    ruleset.provide("a", { ...profileObjects(1), chains: [], sets: [] });
    ruleset.flush();
    assert.equal(kernel.commits.length, before, "the object stays");
    ruleset.provide("b", { ...profileObjects(1), chains: [] });
    ruleset.flush();
    assert.deepEqual(names(kernel), [...STATIC_NAMES, "members0", "parts1", "ports1"].sort());
    // An object that goes and comes back before a commit stays in the kernel.
    ruleset.provide("b", { ...profileObjects(1), chains: [], sets: [] });
    ruleset.provide("c", { ...profileObjects(1), chains: [] });
    ruleset.flush();
    assert.equal(kernel.commits.length, before + 1);
  });

  it("DP-02: a claim in a provided set writes only its change", () => {
    const { kernel, ruleset } = started();
    ruleset.claim("more", [{ table: profileTable(), set: "ports1", element: { key: [sampleAddress(9), 9] } }]);
    ruleset.flush();
    assert.deepEqual(
      kernel.commits.at(-1)?.map(({ kind }) => kind),
      ["add elements"],
    );
  });

  const table = profileTable();
  it("DP-08: our rules are read back in the next turn or before the next batch, a repair's at once, and foreign ones never", () => {
    const kernel = new FakeNftables();
    const read: string[] = [];
    const rulesOf = kernel.rulesOf.bind(kernel);
    kernel.rulesOf = (reference, chain) => {
      read.push(chain);
      return rulesOf(reference, chain);
    };
    const { clock, ruleset } = started(kernel);
    read.length = 0;
    provideProfile(ruleset, 4);
    ruleset.flush();
    assert.deepEqual(read, []);
    clock.pass(0);
    assert.deepEqual(read.splice(0), ["second4", "first4"]);
    kernel.commit([{ kind: "add rule", table, chain: "second4", rule: rule(counter, drop) }]);
    ruleset.verify();
    assert.equal(
      ruleset.status().repairs,
      1,
      "the rules are known, although elements that lead to them came in between",
    );
    read.length = 0;
    provideProfile(ruleset, 5);
    ruleset.flush();
    provideProfile(ruleset, 6);
    ruleset.flush();
    assert.deepEqual(read.splice(0), ["second5", "first5"]);
    const { repairs } = ruleset.status();
    const whole = contentOf(kernel, table, SETS);
    kernel.commit([{ kind: "add rule", table, chain: "second6", rule: rule(counter, drop) }]);
    clock.pass(0);
    ruleset.verify();
    assert.equal(contentOf(kernel, table, SETS), whole);
    assert.equal(kernel.rulesOf(table, "second6").length, kernel.rulesOf(table, "second5").length);
    assert.equal(ruleset.status().repairs, repairs, "the owner of the rules is unknown");
    kernel.commit([{ kind: "add rule", table, chain: "second6", rule: rule(counter, drop) }]);
    ruleset.verify();
    assert.equal(ruleset.status().repairs, repairs + 1, "the rules of a repair are known at once");
  });

  it("DP-12: a chain with a hook comes when the chains it leads to have their rules, and goes in one batch", () => {
    const { kernel, ruleset } = setUp();
    ruleset.start();
    const chains = (): readonly string[] => [...(kernel.table(profileTable())?.chains.keys() ?? [])];
    const atFirst = chains();
    const before = kernel.commits.length;
    const { chains: led, ...objects } = profileObjects(1);
    const base = { type: "filter", hook: "input", priority: 0, policy: "accept" } as const;
    const hook = { name: "hooked", base, rules: [rule(goTo("first1"))] };
    ruleset.provide("hook", { ...objects, chains: [hook, ...led] });
    ruleset.flush();
    assert.equal(ruleset.status().lastError, undefined);
    const batches = kernel.commits.slice(before);
    assert.deepEqual(
      batches.map((batch) => touched(batch, "add rule").includes("hooked")),
      [false, true],
    );
    assert.ok(touched(batches[0], "add rule").includes("first1"));
    assert.equal(kernel.table(profileTable())?.chains.get("hooked")?.attributes.hook?.priority, 0);
    const known = kernel.commits.length;
    ruleset.verify();
    assert.equal(kernel.commits.length, known, "the chain is correct");
    ruleset.provide("hook", { ...objects, sets: [], chains: [] });
    ruleset.flush();
    assert.deepEqual(chains(), atFirst);
  });
});
