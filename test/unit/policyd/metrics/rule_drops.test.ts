import assert from "node:assert/strict";
import { RuleDrops } from "../../../../policyd/metrics/node_counters.ts";

describe("policyd/metrics/rule_drops", () => {
  const rule = (comment: string, packets: number) => ({ comment, packets });

  it("every reason is reported from the start, with the sum of all its rules", () => {
    const drops = new RuleDrops(["a", "b"]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 0, b: 0 });
    drops.observe("inet x", [rule("a", 1), rule("a", 2), rule("b", 5), rule("not ours", 9)]);
    drops.observe("inet y", [rule("a", 10)]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 13, b: 5 });
    drops.observe("inet x", [rule("a", 2), rule("a", 2), rule("b", 5)]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 14, b: 5 });
  });

  it("a sum continues when rules are written again, with or without a notification", () => {
    const drops = new RuleDrops(["a"]);
    drops.observe("inet x", [rule("a", 5)]);
    drops.rewritten("inet x");
    drops.observe("inet x", [rule("a", 7)]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 12 });
    drops.observe("inet x", [rule("a", 1)]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 13 });
    drops.observe("inet x", []);
    drops.observe("inet x", [rule("a", 2)]);
    assert.deepEqual(Object.fromEntries(drops.totals()), { a: 15 }, "a chain that was gone begins at 0");
  });
});
