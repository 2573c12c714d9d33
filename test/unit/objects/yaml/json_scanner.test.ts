import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { scanJson } from "../../../../objects/yaml/json_scanner.ts";
import { readManifestObjects } from "../../../../cli/input/manifest_objects.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { readObjects } from "../../../../objects/yaml/documents.ts";
import { roundsFor } from "../../../support/long_form.ts";

/** Cuts the text into chunks of these lengths, repeatedly. */
function chunksOf(text: string, lengths: readonly number[]): readonly Buffer[] {
  const bytes = Buffer.from(text);
  const chunks: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = lengths[i % lengths.length] ?? bytes.length;
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return chunks;
}

const values = (text: string, lengths: readonly number[] = [text.length]): readonly unknown[] =>
  readManifestObjects(chunksOf(text, lengths), "json", ({ value }) => value);

describe("objects/yaml/json_scanner", () => {
  const list = {
    apiVersion: "v1",
    items: [
      { kind: "Pod", text: 'a "quoted" \\ text, with ] and }' },
      { kind: "Node", nested: { items: [1, [2]] } },
    ],
    kind: "List",
  };

  it("YAML-04: a list is opened wherever its kind stands, in chunks of any length", () => {
    const reordered = { kind: "List", apiVersion: "v1", items: list.items };
    for (const text of [JSON.stringify(list), JSON.stringify(list, null, 4), JSON.stringify(reordered)]) {
      for (let length = 1; length < 20; length++) assert.deepEqual(values(text, [length]), list.items);
    }
  });

  it("YAML-04: random values in random chunks are read as JSON.parse reads them", () => {
    const value = fc.dictionary(
      fc.oneof(fc.constantFrom("items", "kind", "a"), fc.string()),
      fc.oneof(fc.constantFrom("List", "PodList", "items"), fc.jsonValue(), fc.array(fc.jsonValue())),
    );
    fc.assert(
      fc.property(
        fc.array(value, { maxLength: 3 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        fc.constantFrom(undefined, 1, "\t"),
        (objects, lengths, indent) => {
          const texts = objects.map((object) => JSON.stringify(object, null, indent));
          const attempt = (read: () => readonly unknown[]): unknown => {
            try {
              return read();
            } catch (error) {
              assert.ok(error instanceof DrawbridgeError, String(error));
              return error.code;
            }
          };
          const whole = attempt(() => texts.flatMap((text) => [...readObjects(text, "a.json")]));
          const scanned = attempt(() => values(texts.join("\n"), lengths));
          // The scanner does not read the items of an object that has items and is not a list.
          if (JSON.stringify(whole) !== JSON.stringify(scanned)) {
            const bare = JSON.stringify(whole, (key, inner: unknown) => (key === "items" ? [] : inner));
            assert.equal(
              JSON.stringify(scanned, (key, inner: unknown) => (key === "items" ? [] : inner)),
              bare,
            );
          }
        },
      ),
      { numRuns: roundsFor("random cases", 200, 5000) },
    );
  });

  it("CLI-02: line numbers are those of the objects and of their fields", () => {
    const text = `${JSON.stringify(list, null, 2)}\n\n{"kind":\n"Last"}`;
    const lines = readManifestObjects([Buffer.from(text)], "json", ({ lineOf }) => [
      lineOf([]),
      lineOf(["text"]),
      lineOf(["kind"]),
    ]);
    const rows = text.split("\n");
    assert.match(rows[(lines[0]?.[1] ?? 0) - 1] ?? "", /quoted/);
    assert.match(rows[(lines[1]?.[2] ?? 0) - 1] ?? "", /Node/);
    assert.equal(rows[(lines[2]?.[0] ?? 0) - 1], '{"kind":');
  });

  it("CLI-02: text that is not JSON is refused with its line", () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ['{"kind":"List","items":[{"kind":"A"},\n{"kind":}]}', /^line 2: /],
      ['{"kind":"List","items":[{"kind":"A"},]}', /^line 1: no value after a comma/],
      ['{"kind":"List","items":[,{"kind":"A"}]}', /^line 1: /],
      ['{"kind":"A"}\nx', /^line 2: text outside of an object/],
      ['{"kind":"A"', /the text ends inside an object/],
      ['{"kind":"A}', /the text ends inside an object/],
      ['[{"kind":"A"}]', /^line 1: a list; expected an object/],
      ["}", /a closing bracket/],
      ['{"items" [{}]}', /^line 1: /],
    ];
    for (const [text, expected] of cases) {
      assert.throws(
        () => values(text),
        (error) => error instanceof DrawbridgeError && expected.test(error.message),
        text,
      );
    }
  });

  it("API-16: the time for a value just below the limit in small chunks grows with its length, not with its square", function () {
    // Quadratic time would be more than a minute.
    this.timeout(20_000);
    const text = "\\n".repeat(7 * 1024 * 1024);
    const chunk = Buffer.from(text.slice(0, 8191));
    const chunks = function* (): Generator<Buffer> {
      yield Buffer.from('{"items":[{"a":"');
      for (let left = text.length; left > 0; left -= chunk.length) yield chunk.subarray(0, left);
      yield Buffer.from('"}],"kind":"List"}');
    };
    const [item] = [...scanJson(chunks())];
    assert.equal(item?.type, "item");
    assert.ok(item.text.length > 14 * 1024 * 1024);
  });
});
