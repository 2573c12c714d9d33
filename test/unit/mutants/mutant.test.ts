import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { applyMutant, parseMutants } from "../../mutants/mutant.ts";

describe("mutants: test/mutants.yaml", () => {
  const list = parseMutants(readFileSync(new URL("../../mutants.yaml", import.meta.url), "utf8"));

  for (const entry of list) {
    it(`${entry.id} still fits the code and names a test that exists`, () => {
      const root = new URL("../../../", import.meta.url);
      applyMutant(readFileSync(new URL(entry.file, root), "utf8"), entry);
      assert.ok(existsSync(new URL(entry.test, root)), entry.test);
    });
  }

  it("a breakage is refused where its line is missing or not unique", () => {
    const [entry] = list;
    assert.ok(entry !== undefined);
    for (const [source, times] of [
      ["", 0],
      [entry.line + entry.line, 2],
    ] as const) {
      assert.throws(() => applyMutant(source, entry), new RegExp(`occurs ${times} times`));
    }
  });
});
