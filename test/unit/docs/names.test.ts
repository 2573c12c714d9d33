import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { LAYERS } from "../../support/lint/boundaries.ts";

const BEHAVIOURS = "docs/behaviours.md";
/** The document of a folder of the sources. */
const FOLDERS = globSync(`{${[...Object.keys(LAYERS), "test"].join()}}/**/README.md`).sort();
const DOCUMENTS = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  ...globSync("docs/**/*.md").sort(),
  ...FOLDERS,
];

/** Matches a file or folder of the sources between backticks. */
const PATH = new RegExp(`\`((?:\\.ci|docs|manifests|test|${Object.keys(LAYERS).join("|")})/[\\w./-]*)\``, "g");
/** Matches a source file between backticks, by a path that may begin in the document's folder. */
const SOURCE = /`([\w./-]+\.(?:ts|mjs|yaml|sh))`/g;
/** Matches a behaviour's ID in texts, except the few with one letter, which also mean other things. */
const ID = /\b[A-Z]{2,9}-\d{2}\b/g;

describe("names in the documents", () => {
  const explained = new Set(
    [...readFileSync(BEHAVIOURS, "utf8").matchAll(/^\* ([A-Z]+-?\d+): /gm)].map(([, id]) => id),
  );

  for (const document of DOCUMENTS) {
    const text = readFileSync(document, "utf8");

    it(`DOCS-02: every file that ${document} names exists`, () => {
      const paths = [...text.matchAll(PATH)].map(([, file = ""]) => file);
      assert.deepEqual(
        paths.filter((file) => !existsSync(file)),
        [],
      );
    });

    it(`DOCS-02: every behaviour that ${document} names is explained in ${BEHAVIOURS}`, () => {
      const ids = [...text.matchAll(ID)].map(([id]) => id);
      assert.deepEqual(
        ids.filter((id) => !explained.has(id)),
        [],
      );
    });
  }

  for (const document of FOLDERS) {
    it(`DOCS-02: every source file that ${document} names exists, in its folder, below it or in the project`, () => {
      const folder = path.dirname(document);
      const below = globSync(`${folder}/**/*.{ts,mjs,yaml,sh}`);
      const exists = (name: string): boolean =>
        existsSync(path.join(folder, name)) || existsSync(name) || below.some((file) => file.endsWith(`/${name}`));
      const names = [...readFileSync(document, "utf8").matchAll(SOURCE)].map(([, name = ""]) => name);
      assert.deepEqual(
        names.filter((name) => !exists(name)),
        [],
      );
    });
  }

  it("DOCS-02: the documents name many files and behaviours", () => {
    const text = DOCUMENTS.map((document) => readFileSync(document, "utf8")).join("\n");
    assert.ok([...text.matchAll(PATH)].length > 30);
    assert.ok([...text.matchAll(ID)].length > 500);
  });
});
