import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { accept, rule } from "../../../../kernel/nftables/model/statement.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { namesVersion } from "../../../../policyd/ruleset/schema.ts";
import { rulesetOver } from "../../../support/ruleset/bench.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import { podClaims, profileSets, profileTable, provideJudged } from "../../../support/ruleset/provided.ts";
import { sampleAddress, sampleTables } from "../../../support/ruleset/sample.ts";

/** Several times what one batch takes. */
const MANY = 60;
const MANY_ELEMENTS = 5000;
const table = profileTable();
const SETS = Array.from({ length: MANY }, (_, number) => profileSets(number)).flat();

/** The kernel's content after all profiles were provided at once. */
function whole(): string {
  const kernel = new FakeNftables();
  const ruleset = rulesetOver(kernel, [table]);
  provideJudged(ruleset, [0, MANY]);
  ruleset.start();
  assert.equal(ruleset.flush(), true);
  return contentOf(kernel, table, SETS);
}

describe("policyd/ruleset: a schema with a great many objects", () => {
  it("DP-13: a table that is written in slices has all sets of its schema, whenever the slices are decided on", () => {
    const [other] = sampleTables();
    assert.ok(other !== undefined);
    const large = Array.from({ length: MANY_ELEMENTS }, (_, number) => ({
      table: other,
      set: "frontends",
      element: { key: [sampleAddress(number), 80] },
    }));
    const kernel = new FakeNftables();
    const before = rulesetOver(kernel, [other]);
    before.claim("large", large);
    before.start();
    before.flush();
    before.stop();
    const clock = new FakeClock();
    const ruleset = rulesetOver(kernel, [table, other], { clock });
    ruleset.claim("large", large);
    ruleset.claim("early", podClaims(MANY, MANY).slice(0, 1));
    // Our table is known to be missing, and the other one is still being read.
    clock.after(0, () => provideJudged(ruleset, [0, MANY]));
    ruleset.start();
    clock.pass(0);
    ruleset.claim("early", []);
    assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    assert.equal(contentOf(kernel, table, SETS), whole());
    assert.equal(ruleset.status().failures, 0);
  });

  for (const isNew of [true, false]) {
    it(`DP-13 DP-09: foreign rules in chains that have no rules yet are removed, in ${isNew ? "a new table" : "one in force"}`, () => {
      const kernel = new FakeNftables();
      const clock = new FakeClock();
      const ruleset = rulesetOver(kernel, [table], { clock });
      if (!isNew) ruleset.start();
      provideJudged(ruleset, [0, MANY]);
      if (isNew) ruleset.start();
      const harmed = new Set<string>();
      const turn = (): void => {
        for (const [chain, { rules }] of kernel.table(table)?.chains ?? []) {
          if (rules.length > 0 || harmed.has(chain) || namesVersion({ name: chain })) continue;
          harmed.add(chain);
          kernel.commit([{ kind: "add rule", table, chain, rule: rule(accept) }]);
        }
        ruleset.verify();
        if (!ruleset.status().isReconciled) clock.after(0, turn);
      };
      clock.after(0, turn);
      clock.pass(0);
      ruleset.verify();
      clock.pass(0);
      const provided = [...harmed].filter((chain) => /\d/.test(chain)).length;
      assert.ok(provided > 0 && harmed.size > provided === isNew, [...harmed].join(" "));
      assert.equal(contentOf(kernel, table, SETS), whole());
      assert.equal(ruleset.status().failures, 0, ruleset.status().lastError);
    });
  }
});
