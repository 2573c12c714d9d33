import assert from "node:assert/strict";
import { linesByFolder, type Weight, weightTable } from "../../support/lint/weight.ts";

const weight = (lines: readonly string[], promises: number): Weight => ({
  lines: linesByFolder(lines),
  promises,
  kilobytesOfDocuments: 7,
});

describe("lint: what the project weighs", () => {
  it("the table of --weight has the lines of the product and of each folder, also a new or removed one, and the change", () => {
    const before = weight(["cni/a.ts:5", "cni/b/c.ts:10", "test/a.ts:3", "former/a.ts:1"], 4);
    const now = weight(["cni/a.ts:6", "test/a.ts:2", "ipam/store.ts:20"], 5);
    assert.deepEqual(weightTable(before, now).split("\n").slice(2), [
      "| lines of the product | 15 | 26 | +11 |",
      "| lines of cni/ | 15 | 6 | -9 |",
      "| lines of former/ | 1 | 0 | -1 |",
      "| lines of ipam/ | 0 | 20 | +20 |",
      "| lines of test/ | 3 | 2 | -1 |",
      "| promises | 4 | 5 | +1 |",
      "| kilobytes of documents | 7 | 7 | 0 |",
      "",
    ]);
  });
});
