import assert from "node:assert/strict";
import fc from "fast-check";
import { Budget } from "../../../../policyd/lib/budget.ts";

const bounds = { share: 5, pool: 20, most: 18 };

describe("lib/budget", () => {
  it("SHARE-07: whatever namespaces ask for, each gets its share, all together no more than shares and pool, and room given back can be taken again", () => {
    const request = fc.record({ namespace: fc.constantFrom("a", "b", "c"), amount: fc.integer({ min: -12, max: 30 }) });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 40 }), (requests) => {
        const budget = new Budget(bounds);
        const used = new Map<string, number>();
        for (const { namespace, amount } of requests) {
          const before = used.get(namespace) ?? 0;
          const beyond = [...used.values()].reduce((sum, value) => sum + Math.max(0, value - bounds.share), 0);
          const room = Math.max(0, bounds.share - before) + bounds.pool - beyond;
          const free = Math.min(room, bounds.most - before);
          assert.equal(budget.roomOf(namespace), free);
          const own = Math.trunc(before / 2);
          const without = new Budget(bounds);
          for (const [other, value] of used) without.change(other, other === namespace ? value - own : value);
          assert.equal(budget.roomOf(namespace, own), without.roomOf(namespace), "the room without a part of its own");
          const change = Math.max(amount, -before);
          if (change < 0) budget.change(namespace, change);
          else assert.equal(budget.take(namespace, change), change <= free);
          if (change <= free) used.set(namespace, before + change);
        }
        assert.ok(budget.roomOf("newcomer") >= bounds.share);
      }),
    );
  });
});
