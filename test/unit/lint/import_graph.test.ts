import assert from "node:assert/strict";
import path from "node:path";
import { LAYERS } from "../../support/lint/boundaries.ts";
import { circularImports, folderImports } from "../../support/lint/import_graph.ts";

const PROJECT = path.resolve(import.meta.dirname, "../../..");

describe("lint: the graph of imports between folders", () => {
  it("no two second-level folders of the product import each other, also by way of others", () => {
    const imports = folderImports(PROJECT, Object.keys(LAYERS));
    assert.ok(imports.length > 500, "the imports are found");
    assert.deepEqual(
      circularImports(imports).map(({ files }) => files.join(" imports ")),
      [],
    );
  });

  it("a circle of three folders is reported without the imports that only lead to it", () => {
    const edge = (from: string, to: string) => ({ from, to, files: [`${from}/x.ts`, `${to}/y.ts`] as const });
    const circle = [edge("a/b", "a/c"), edge("a/c", "d/e"), edge("d/e", "a/b")];
    assert.deepEqual(circularImports([...circle, edge("f/g", "a/b"), edge("a/c", "h/i")]), circle);
  });
});
