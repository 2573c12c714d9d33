import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import fc from "fast-check";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { yamlDocuments } from "../../../../objects/yaml/yaml_documents.ts";
import { readSimple } from "../../../../objects/yaml/yaml_simple.ts";
import { readTree } from "../../../../objects/yaml/yaml_tree.ts";
import { roundsFor } from "../../../support/long_form.ts";

const PROJECT = path.resolve(import.meta.dirname, "../../../..");
const FOLDERS = ["manifests", "test/fixtures", "test/cluster/expectations", "test/unit"];

const FILES = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(PROJECT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.ya?ml$/.test(name))
    .map((name) => readFileSync(path.join(PROJECT, folder, name), "utf8")),
);

/**
 * Asserts that the fast reader reads the same as the library, or leaves the text to it. @returns whether it has read it
 */
function assertAsLibrary(text: string): boolean {
  const simple = readSimple(text);
  if (simple === undefined) return false;
  const tree = readTree({ text, line: 1 });
  assert.deepEqual(simple.value, tree?.value, text);
  assert.equal(text.slice(0, simple.offset).split("\n").length, tree?.lineOf([]), text);
  return true;
}

/** The documents of a text, or none if the text cannot be cut into documents. */
function documentsOf(text: string): readonly string[] {
  try {
    return [...yamlDocuments(text)].map((document) => document.text);
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError, String(error));
    return [];
  }
}

const DOCUMENTS = FILES.flatMap(documentsOf);
const character = fc.constantFrom(...Array.from("ab1 \n\n  -:#'\"\\[]{},&*!|>%@~.<?_/+0xyeno\t"));
/** A document with some characters inserted, removed or replaced. */
const mutated = fc
  .tuple(
    fc.constantFrom(...DOCUMENTS.filter(({ length }) => length < 3000)),
    fc.array(fc.tuple(fc.nat(3000), fc.nat(2), fc.string({ unit: character, maxLength: 3 })), {
      minLength: 1,
      maxLength: 4,
    }),
  )
  .map(([text, changes]) => {
    let changed = text;
    for (const [place, removed, inserted] of changes) {
      const at = place % (changed.length + 1);
      changed = `${changed.slice(0, at)}${inserted}${changed.slice(at + removed)}`;
    }
    return `${changed}\n`;
  });

const value = fc.constantFrom(
  ..."a|b c|1|01|yes|~|''|'it''s'|\"q\"|\"a\\nb\"|{}|[]|[a, 1]|{ a: 1, \"b\": [x] }|a: b|a:|a:b|x #c|x#c|- a|-a|&x a|*x".split(
    "|",
  ),
  "|\n    x\n     y",
  "|-\n    x\n\n",
  "|+\n  x\n\n",
  "|\n\n   x",
  "",
  " # c",
);
const key = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("a", "b", "c", "kind", "d", "e") },
  fc.constantFrom("1", "yes", '"q"', "a/b", "<<", "- a", "- - b", "-", "? a", "#"),
);
const indentation = fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, fc.constantFrom(2, 2, 4, 1));
const colon = fc.oneof({ weight: 8, arbitrary: fc.constant(": ") }, fc.constantFrom(":", " "));
/** Lines that may or may not belong together. */
const lines = fc
  .array(fc.tuple(indentation, key, colon, value), { minLength: 1, maxLength: 5 })
  .map((all) => all.map(([indent, name, sign, text]) => `${" ".repeat(indent)}${name}${sign}${text}\n`).join(""));

describe("objects/yaml/yaml_simple", function () {
  this.timeout(60_000);

  it("YAML-01: nine of ten documents of the repository are read without the library, with the same result", () => {
    const read = DOCUMENTS.filter(assertAsLibrary);
    assert.ok(read.length > DOCUMENTS.length * 0.9, `${read.length} of ${DOCUMENTS.length}`);
  });

  for (const [what, texts] of [
    ["damaged documents of the repository", mutated],
    ["documents of random lines", lines],
  ] as const) {
    it(`YAML-01: ${what} are left to the library, or read with the same result`, () => {
      const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
      const samples = fc.sample(texts, { numRuns: roundsFor("random cases", 800, 10_000), seed }).flatMap(documentsOf);
      const read = samples.filter(assertAsLibrary).length;
      assert.ok(read > samples.length / 50, `seed ${seed}: only ${read} of ${samples.length} were read`);
    });
  }
});
