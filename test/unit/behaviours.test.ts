import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { ROWS } from "../support/services/acceptance/rows.ts";

/** Matches a behaviour's ID in a test title: POD-01, P5, B18, I2. */
const ID = /\b(?:[A-Z]{2,9}-\d{2}|[A-Z]\d{1,2})\b/g;

/** Matches the first argument of it() and describe() in any quotes. */
const TITLE = /\b(?:it|describe)\(\s*(["'`])((?:(?!\1).)*)\1/g;

describe("behaviour IDs", () => {
  const explained = new Set(
    [...readFileSync("docs/behaviours.md", "utf8").matchAll(/^\| ([A-Z]+-?\d+) \| .{10,}/gm)].map(([, id]) => id),
  );
  const used = new Map<string, string>();
  for (const file of globSync("test/**/*.test.ts")) {
    for (const [, , title] of readFileSync(file, "utf8").matchAll(TITLE)) {
      for (const [id] of (title ?? "").matchAll(ID)) used.set(id, `${file}: ${title}`);
    }
  }

  // The titles of these tests are generated from data.
  for (const { id, behaviours } of ROWS) {
    for (const [behaviour] of behaviours.matchAll(ID)) used.set(behaviour, `row ${id}`);
  }

  it("every ID in a test title is explained in docs/behaviours.md", () => {
    const unknown = [...used].filter(([id]) => !explained.has(id)).map(([id, where]) => `${id} (${where})`);
    assert.deepEqual(unknown, []);
  });

  it("every ID explained in docs/behaviours.md is in a test title", () => {
    assert.deepEqual(
      [...explained].filter((id) => id !== undefined && !used.has(id)),
      [],
    );
  });
});
