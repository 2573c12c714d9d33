import assert from "node:assert/strict";
import fc from "fast-check";
import { type DesiredElement, tableKey } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { DesiredElements } from "../../../../policyd/ruleset/desired/desired_elements.ts";
import { elementOf } from "../../../../policyd/ruleset/desired/packed_element.ts";

const table = { family: "inet", name: "drawbridge" } as const;
const MANY = 20_000;

function claimOf(key: number, value: number): DesiredElement {
  return { table, set: "numbers", element: { key: [key], data: [value] } };
}

/** The data of a key's element. */
function valueOf(desired: DesiredElements, key: number): unknown {
  const kept = desired.in(tableKey(table), "numbers").get(String(key));
  return kept === undefined ? undefined : elementOf(String(key), kept).data;
}

describe("policyd/ruleset/desired_elements", () => {
  it("DP-04: of all owners that claim a key the first by name has it, whoever comes and goes", () => {
    const step = fc.record({
      owner: fc.constantFrom("a", "b", "c", "d", "e"),
      claims: fc.uniqueArray(fc.tuple(fc.nat(2), fc.nat(9)), { selector: ([key]) => key }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const desired = new DesiredElements();
        const wanted = new Map<string, ReadonlyMap<number, number>>();
        for (const { owner, claims } of steps) {
          const before = [0, 1, 2].map((key) => valueOf(desired, key));
          const changed = desired.replace(
            owner,
            claims.map(([key, value]) => claimOf(key, value)),
          );
          wanted.set(owner, new Map(claims));
          const expected = [0, 1, 2].map((key) => {
            const [first] = [...wanted].filter(([, own]) => own.has(key)).sort(([a], [b]) => (a < b ? -1 : 1));
            return first === undefined ? undefined : [first[1].get(key)];
          });
          assert.deepEqual(
            [0, 1, 2].map((key) => valueOf(desired, key)),
            expected,
          );
          const others = [0, 1, 2].filter((key) => JSON.stringify(before[key]) !== JSON.stringify(expected[key]));
          assert.deepEqual(new Set(changed.map(({ key }) => Number(key))), new Set(others));
        }
      }),
    );
  });

  it("DP-02: a claim for a key that thousands claim costs no more than any other", () => {
    const desired = new DesiredElements();
    for (let i = 0; i < MANY; i++) desired.replace(`Service ${(i * 7919) % MANY}`, [claimOf(443, i)]);
    assert.deepEqual(valueOf(desired, 443), [0]);
    for (let i = 0; i < MANY; i++) desired.replace(`Service ${i}`, []);
    assert.equal(desired.size, 0);
  }).timeout(10_000);
});
