import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { mutable } from "../../mutants/mutations.ts";
import { Trial } from "../../mutants/trial.ts";

const SOURCE = `const LEAST = 3;
export const isLarge = (n: number): boolean => n > LEAST;
export const unused = (n: number): number => n * 2;
`;
const TESTS = `import assert from "node:assert/strict";
import { isLarge } from "./source.ts";
describe("a trial", () => {
  it("judges", () => assert.deepEqual([isLarge(2), isLarge(4)], [false, true]));
  it("fails anyway", () => assert.fail());
});
`;

describe("mutants: a trial", function () {
  this.timeout(300_000);
  let root: string;

  before(() => {
    root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-trial-"));
    writeFileSync(path.join(root, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(root, "source.ts"), SOURCE);
    writeFileSync(path.join(root, "source.test.ts"), TESTS);
  });

  after(() => rmSync(root, { recursive: true }));

  it("tells killed mutants, also of what a module does when it is loaded, from those that no test notices or reaches", async () => {
    const mutations = mutable(SOURCE).mutations.map(({ id }) => ({ file: "source.ts", id }));
    using trial = new Trial(root, mutations, () => ["source.test.ts"]);
    assert.deepEqual(await trial.begin(), ["a trial fails anyway"]);
    const fates: Record<string, string> = {};
    for (const [number, { id }] of mutations.entries()) {
      const fate = await trial.fate(number);
      fates[id] = fate.kind === "killed" ? fate.by : fate.why;
    }
    assert.deepEqual(fates, {
      "1:15:literal": "a trial judges",
      "2:48:operator": "1 tests pass",
      "3:46:operator": "no test reaches it",
      "3:50:literal": "no test reaches it",
    });
  });
});
