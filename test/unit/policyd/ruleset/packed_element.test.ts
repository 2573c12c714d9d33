import assert from "node:assert/strict";
import type { Element } from "../../../../kernel/nftables/model/object.ts";
import { isSameElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { isPacked, isSamePacked, packElement } from "../../../../policyd/ruleset/desired/packed_element.ts";

describe("policyd/ruleset: compact elements", () => {
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
});
