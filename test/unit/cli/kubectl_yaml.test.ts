import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { readManifestObjects } from "../../../cli/input/manifest_objects.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { decodeAll, type Decoded, requireDecoder } from "../../support/kubectl_decoder/decoder.ts";
import { countedSeed, roundsFor } from "../../support/long_form.ts";

const DOCUMENTS = roundsFor("documents", 500, 2000);
const PROJECT = path.resolve(import.meta.dirname, "../../..");
const FOLDERS = ["manifests", "test/fixtures", "test/cluster/expectations", "test/unit"];

/** Matches our refusals of texts that kubectl reads, which docs/cli.md lists. */
const LISTED_REFUSALS = [
  /: a key stands twice in one object$/,
  /: a sign that has no place here; /,
  /: the character U\+feff; expected text$/,
  /: &.*; expected a name of letters/,
  /: (a tag or an anchor has no blank after it|a tag \(!name\) that cannot be applied)/,
  /: \.\.\. without a value before it$/,
  /: more than 64 levels/,
];

/** Matches kubectl's refusals of texts that we read, which docs/cli.md lists. */
const LISTED_KUBECTL_REFUSALS = [
  /did not find expected whitespace or line break$/,
  /did not find expected ',' or '[}\]]'$/,
  /found character that cannot start any token$/,
  /found an incorrect (leading|trailing) UTF-8 octet$/,
  /did not find URI escaped octet$/,
  /did not find expected node content$/,
  /^invalid character '-' in numeric literal$/,
  /^json: offset \d+: invalid character '\.'/,
];

/** Returns objects, or "refused" where a document is not an object, which both refuse later. */
function objectsOrRefusal(values: readonly unknown[]): unknown {
  return values.every((value) => typeof value === "object" && value !== null && !Array.isArray(value))
    ? values
    : "refused";
}

function ours(text: string): { readonly outcome: unknown; readonly refusal: string } {
  try {
    const values: unknown[] = [];
    readManifestObjects([Buffer.from(text)], "yaml", ({ value }) => void values.push(value));
    // JSON has no negative zero.
    return { outcome: objectsOrRefusal(JSON.parse(JSON.stringify(values)) as unknown[]), refusal: "" };
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError, String(error));
    return { outcome: "refused", refusal: error.message };
  }
}

/** Returns a difference that docs/cli.md does not list, or undefined. */
function difference(text: string, { objects, error = "" }: Decoded): string | undefined {
  const mine = ours(text);
  const theirs = error === "" ? objectsOrRefusal(JSON.parse(JSON.stringify(objects ?? [])) as unknown[]) : "refused";
  try {
    assert.deepEqual(mine.outcome, theirs);
    return undefined;
  } catch {
    const listed = mine.refusal === "" ? LISTED_KUBECTL_REFUSALS : LISTED_REFUSALS;
    const reason = mine.refusal === "" ? error : mine.refusal;
    if (reason !== "" && listed.some((pattern) => pattern.test(reason))) return undefined;
    return `${JSON.stringify(text)}\n  kubectl: ${error || JSON.stringify(theirs)}\n  here: ${mine.refusal || JSON.stringify(mine.outcome)}`;
  }
}

const SCALARS = [
  "1",
  "01",
  "0o7",
  "-1",
  "1.5",
  "1e3",
  "yes",
  "No",
  "null",
  "~",
  "",
  "a b",
  "a: b",
  "a#b",
  "a #b",
  "2020-01-01",
  "1:30",
  "http://x:1/y",
  "- x",
  "*x",
  "&x v",
  "!!str 1",
  "!!int x",
  "!l y",
  "[1, 2]",
  "[a, b: c]",
  "{a: 1, b: }",
  "[]",
  "'s'",
  "'it''s'",
  '"a\\nb"',
  '"\\u00e9"',
  "|\n    x\n    y",
  "|-\n    x\n",
  ">\n    x\n    y\n\n    z",
  "'m\nn'",
  "[1,\n2]",
  "{a: 1,\nb: 2}",
  "{-, a: -}",
  "[[-],-]",
  "x\n    y",
  ".5",
  "@a",
  "%a",
  "a%",
  "'a'#c",
  "[a,b",
  "{a: b",
  "é",
  "1\t",
  "_1",
  "1_0",
  "0b-1",
  "! 1",
];
const KEYS = [
  "a",
  "b",
  "kind",
  "metadata",
  "labels",
  "yes",
  "on",
  "1",
  "0x1f",
  "1.5",
  "~",
  "'q'",
  "<<",
  "&k c",
  "!!str 1",
];
const figures = fc.string({ unit: fc.constantFrom(...Array.from("0123456789.+-eExob_:")), minLength: 1, maxLength: 8 });
const signs = fc.string({
  unit: fc.constantFrom(...Array.from("ab1T# '\"\\[]{},&*!|>%@:-")),
  minLength: 1,
  maxLength: 8,
});
const scalar = fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...SCALARS) }, figures, signs);
const key = fc.oneof(
  fc.constantFrom(...KEYS),
  fc.string({ unit: fc.constantFrom(...Array.from("abxyz0189.-_/")), minLength: 1, maxLength: 6 }),
);
const map = fc
  .array(fc.tuple(key, scalar), { minLength: 1, maxLength: 5 })
  .map((entries) => `x: &x {a: 1}\ntop:\n${entries.map(([name, value]) => `  ${name}: ${value}\n`).join("")}`);
const list = fc
  .array(scalar, { minLength: 1, maxLength: 4 })
  .map((values) => `top:\n${values.map((value) => `  - ${value}\n`).join("")}`);
const json = fc
  .dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { minKeys: 1 })
  .map((value) => `${JSON.stringify(value, null, 1)}\n`);
const separator = fc.constantFrom("", "---\n", "--- # c\n", "---\r\n", "...\n", "...\n---\n", "# c\n", "--- x\n");
const file = fc
  .array(fc.tuple(separator, fc.oneof({ weight: 4, arbitrary: map }, { weight: 2, arbitrary: list }, json)), {
    minLength: 1,
    maxLength: 3,
  })
  // The keys are unique, since repeated keys are a known difference that would hide others.
  .map((parts) =>
    parts
      .map(([before, text], i) => `${before}${text.replace(/^x:/, `x${i}:`).replace(/^top:/m, `top${i}:`)}`)
      .join(""),
  );

describe("YAML compared with kubectl's decoder", function () {
  this.timeout(120_000);

  before(function () {
    requireDecoder(this);
  });

  it(`YAML-01: ${DOCUMENTS} random files have equal objects, are refused by both, or differ as docs/cli.md says`, () => {
    const seed = countedSeed();
    const texts = fc.sample(file, { numRuns: DOCUMENTS, seed });
    const decoded = decodeAll(texts);
    const differences = texts.flatMap((text, i) => difference(text, decoded[i] ?? { objects: [] }) ?? []);
    assert.equal(differences.length, 0, `seed ${seed}: ${differences.slice(0, 3).join("\n")}`);
    const read = decoded.filter(({ error }) => error === undefined).length;
    assert.ok(read > DOCUMENTS / 10, `only ${read} files can be read at all`);
  });

  it("YAML-01: every YAML file of the repository has equal objects", () => {
    const files = FOLDERS.flatMap((folder) =>
      readdirSync(path.join(PROJECT, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => /\.ya?ml$/.test(name))
        .map((name) => path.join(PROJECT, folder, name)),
    );
    assert.ok(files.length > 50);
    const texts = files.map((name) => readFileSync(name, "utf8"));
    const decoded = decodeAll(texts);
    for (const [i, text] of texts.entries()) {
      assert.equal(difference(text, decoded[i] ?? { objects: [] }), undefined, files[i]);
    }
  });
});
