import assert from "node:assert/strict";
import { planRun } from "../../run/plan.ts";

const FILES = Array.from({ length: 20 }, (_, i) => `test/unit/${String(i).padStart(2, "0")}.test.ts`);

describe("test run: the order of the files", () => {
  it("is the same for one seed, in whatever order the files are found, and another one for another seed", () => {
    const { together } = planRun(FILES, 7);
    assert.deepEqual(planRun(FILES.toReversed(), 7).together, together);
    assert.notDeepEqual(planRun(FILES, 8).together, together);
    assert.deepEqual(together.toSorted(), FILES);
  });

  it("has the files in test/exclusive/ at the end, and no other", () => {
    const exclusive = ["test/exclusive/a.test.ts", "test/exclusive/node/b.test.ts"];
    const plan = planRun([...exclusive, "test/unit/exclusive.test.ts", "test/unit/exclusive/c.test.ts"], 1);
    assert.deepEqual(plan.exclusive.toSorted(), exclusive);
    assert.deepEqual(plan.together.toSorted(), ["test/unit/exclusive.test.ts", "test/unit/exclusive/c.test.ts"]);
  });
});
