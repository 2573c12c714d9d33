import assert from "node:assert/strict";
import fc from "fast-check";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { Element } from "../../../../kernel/nftables/model/object.ts";
import { isSameElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { elementOf, isPacked, isSamePacked, packElement } from "../../../../policyd/ruleset/desired/packed_element.ts";

const scalar = fc.oneof(fc.nat(), fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), fc.string({ maxLength: 5 }));
const field: fc.Arbitrary<KeyField> = fc.oneof(
  { weight: 4, arbitrary: scalar },
  fc.tuple(fc.nat(9), fc.nat(9)).map(([first, more]) => ({ first, last: first + more })),
);
const data: fc.Arbitrary<Element["data"]> = fc.option(
  fc.oneof(
    fc.array(scalar, { minLength: 1, maxLength: 3 }),
    fc.constant({ kind: "drop" } as const),
    fc.string({ maxLength: 3 }).map((chain) => ({ kind: "jump", chain }) as const),
  ),
  { nil: undefined },
);
const element: fc.Arbitrary<Element> = fc
  .record({
    key: fc.array(field, { minLength: 1, maxLength: 4 }),
    data,
    timeout: fc.option(fc.nat(), { nil: undefined }),
    comment: fc.option(fc.string({ maxLength: 5 }), { nil: undefined }),
  })
  .map(({ key, data: value, timeout, comment }) => ({
    key,
    ...(value === undefined ? {} : { data: value }),
    ...(timeout === undefined ? {} : { timeout }),
    ...(comment === undefined ? {} : { comment }),
  }));

describe("policyd/ruleset: compact elements", () => {
  it("an element that is packed and unpacked is unchanged", () => {
    fc.assert(
      fc.property(element, (one) => assert.deepEqual(elementOf(keyText(one.key), packElement(one)), one)),
      { examples: [[{ key: [1, 2n, "a"], data: [3n, 4, "b"] }]] },
    );
  });

  it("two packed elements of one key are the same if and only if their elements are", () => {
    const values: readonly Element["data"][] = [undefined, [1], [1n], ["1"], [1, 2], ["1|2"], { kind: "drop" }];
    const elements = values.flatMap((value) =>
      [undefined, "", "a|b"].map((comment): Element => ({
        key: [7, "tcp"],
        ...(value === undefined ? {} : { data: value }),
        ...(comment === undefined ? {} : { comment }),
      })),
    );
    for (const one of elements) {
      for (const other of elements) {
        const isSame = isSameElement(one, other);
        assert.equal(isSamePacked(packElement(one), packElement(other)), isSame);
        assert.equal(isPacked(packElement(one), other), isSame);
      }
    }
  });

  it("a claimed range of one value is the same as the single value that the kernel reports", () => {
    assert.ok(isSamePacked(packElement({ key: [{ first: 5, last: 5 }] }), packElement({ key: [5] })));
    assert.ok(!isSamePacked(packElement({ key: [{ first: 5, last: 5 }], comment: "a" }), packElement({ key: [5] })));
  });

  it("most elements are packed as texts, and those without data as one text for a whole set", () => {
    assert.equal(packElement({ key: [1, "tcp", 80n] }), "isb");
    assert.equal(packElement({ key: [1, "tcp"], data: [2, 80] }), "is|ii|2|80");
    assert.equal(packElement({ key: [1], comment: "default/web" }), "i#default/web");
  });
});
