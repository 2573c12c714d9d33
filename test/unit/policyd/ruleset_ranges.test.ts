import assert from "node:assert/strict";
import { FakeNftables } from "../../../kernel/nftables/fake_nftables.ts";
import { goTo, inSet, rule } from "../../../kernel/nftables/statement.ts";
import { FakeClock } from "../../../policyd/clock.ts";
import { Ruleset } from "../../../policyd/dataplane/ruleset.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { podClaims, profileTable } from "../../support/dataplane/provided.ts";

const table = profileTable();
const ranges = { name: "ranges", key: ["ipv4_addr"], isInterval: true } as const;

describe("policyd/ruleset with sets of ranges", () => {
  it("DP-15: a new set of ranges is there, with its elements, a batch before the rules that name it", () => {
    const kernel = new FakeNftables();
    const clock = new FakeClock();
    const options = { kernel, clock, logger: recordingLogger(), tables: [table], minSyncPeriod: 0, syncPeriod: 60_000 };
    const ruleset = new Ruleset(options);
    ruleset.start();
    const judge = { name: "first0", rules: [rule(inSet("ip saddr", ranges.name), goTo("dropped"))] };
    ruleset.provide("profile 0", { table, sets: [ranges], chains: [judge] });
    const claimRange = (last: number): void =>
      ruleset.claim("profile 0", [{ table, set: ranges.name, element: { key: [{ first: 0, last }] } }]);
    claimRange(9);
    ruleset.claim("pod 0", podClaims(0, 0));
    clock.pass(0);
    const batches = kernel.commits
      .slice(1)
      .map((batch) => batch.flatMap((change) => (change.kind === "add elements" ? [change.set.name] : [])));
    assert.deepEqual(batches, [["ranges"], ["known", "verdicts"]]);
    claimRange(19);
    clock.pass(0);
    assert.equal(kernel.commits.length, 4, "a change of a set that is there is one batch");
  });

  for (const [sets, each] of [
    [1, 800],
    [30, 1],
  ] as const) {
    it(`DP-15: ${sets} of ${each} ranges, more than one batch takes, are there before what is judged by them`, () => {
      const kernel = new FakeNftables();
      const clock = new FakeClock();
      const options = { kernel, clock, logger: recordingLogger(), tables: [table] };
      const ruleset = new Ruleset({ ...options, minSyncPeriod: 0, syncPeriod: 60_000 });
      ruleset.start();
      const many = Array.from({ length: sets }, (_, number) => ({ ...ranges, name: `ranges${number}` }));
      const rules = many.map(({ name }) => rule(inSet("ip saddr", name), goTo("dropped")));
      ruleset.provide("profile 0", { table, sets: many, chains: [{ name: "first0", rules }] });
      const keys = Array.from({ length: each }, (_, number) => [{ first: 20 * number, last: 20 * number + 9 }]);
      const claims = many.flatMap(({ name: set }) => keys.map((key) => ({ table, set, element: { key } })));
      ruleset.claim("profile 0", claims);
      ruleset.claim("pod 0", podClaims(0, 0));
      clock.pass(0);
      const batches = kernel.commits
        .slice(1)
        .map((batch) => batch.flatMap((change) => (change.kind === "add elements" ? [change.set.name] : [])));
      assert.deepEqual(batches.pop(), ["known", "verdicts"]);
      assert.ok(batches.length > 1 && !batches.flat().includes("verdicts"), JSON.stringify(batches));
      for (const set of many) assert.equal(kernel.elements(table, set).length, each);
    });
  }
});
