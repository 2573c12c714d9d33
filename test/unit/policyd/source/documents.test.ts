import assert from "node:assert/strict";
import fc from "fast-check";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { readObjects } from "../../../../policyd/source/documents.ts";

const yaml = (text: string): unknown[] => [...readObjects(text, "a.yaml")];
const json = (text: string): unknown[] => [...readObjects(text, "a.json")];

function refusalOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_OBJECT", String(error));
    return error.message;
  }
  return assert.fail("it was read");
}

describe("policyd/source/documents", () => {
  it("DAEMON-01: opens documents and lists, and gives a typed list's items its kind", () => {
    assert.deepEqual(
      yaml("kind: A\n---\n# nothing\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n...\n"),
      [{ kind: "A" }, { apiVersion: undefined, kind: "B" }, { apiVersion: undefined, kind: "C" }].map(
        (object) => JSON.parse(JSON.stringify(object)) as unknown,
      ),
    );
    assert.deepEqual(json('{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}'), [
      { apiVersion: "v1", kind: "Pod", metadata: { name: "a" } },
    ]);
    assert.deepEqual(json('{"kind":"List","items":null}'), []);
    assert.match(
      refusalOf(() => yaml("kind: List\nitems: [{kind: List, items: []}]")),
      /a list inside a list/,
    );
  });

  it("DAEMON-01: YAML is read as kubectl reads it", () => {
    assert.deepEqual(
      yaml(`{a: yes, b: on, c: 0777, d: 1:30, e: 2020-01-01T00:00:00Z, f: "yes", g: 010.0.0.1, h: 0x1f, i: ~, j: Off}`),
      [
        {
          a: true,
          b: true,
          c: 511,
          d: "1:30",
          e: "2020-01-01T00:00:00Z",
          f: "yes",
          g: "010.0.0.1",
          h: 31,
          i: null,
          j: false,
        },
      ],
    );
    assert.deepEqual(yaml("base: &x {a: 1}\nb: {<<: *x, c: 2}"), [{ base: { a: 1 }, b: { a: 1, c: 2 } }]);
  });

  it("DAEMON-01: a syntax error names its line, and keys given twice are one", () => {
    assert.match(
      refusalOf(() => yaml("a: 1\nb: [\n")),
      /^line [23]: /,
    );
    assert.match(
      refusalOf(() => yaml("a: 1\nb: 2\na: 3\n")),
      /^line 3: Map keys must be unique/,
    );
    assert.match(
      refusalOf(() => yaml("a: !!binary aGk=")),
      /^line 1: Unresolved tag/,
    );
    assert.match(
      refusalOf(() => json('{"a":')),
      /JSON/,
    );
  });

  it("DAEMON-01: aliases that multiply and nesting without end are refused", () => {
    const row = (i: number) =>
      `b${i}: &b${i} [${Array.from({ length: 9 }, () => (i === 0 ? "x" : `*b${i - 1}`)).join(",")}]`;
    assert.match(
      refusalOf(() => yaml(Array.from({ length: 9 }, (_, i) => row(i)).join("\n"))),
      /alias/i,
    );
    assert.match(
      refusalOf(() => yaml("[".repeat(100) + "]".repeat(100))),
      /more than 64 levels/,
    );
    for (const opening of ["[", "- ", "? ", "{a: "]) {
      assert.match(
        refusalOf(() => yaml(opening.repeat(20_000))),
        /more than 64 levels/,
        opening,
      );
    }
  });

  it("DAEMON-01: keys given twice are found wherever they are, the first in the text", () => {
    for (const [text, line] of [
      ["a:\n  - b: 1\n    c: 2\n    b: 3\nd: 1\nd: 2\n", 4],
      ["a: 1\na: 2\nb: {c: 1, c: 2}\n", 2],
      ["a: {b: 1,\n b: 2}\n", 2],
      ['"a": 1\n? a\n: 2\n', 2],
      ["? {b: 1,\n  b: 2}\n: 1\n", 2],
      ["yes: 1\non: 2\n", 2],
    ] as const) {
      assert.match(
        refusalOf(() => yaml(text)),
        new RegExp(`^line ${line}: Map keys must be unique`),
        text,
      );
    }
    assert.deepEqual(yaml("a: {b: 1}\nb: {b: 1}\n"), [{ a: { b: 1 }, b: { b: 1 } }]);
  });

  it("DAEMON-01: twice as many keys or aliases take twice as long, and a great many aliases are refused", () => {
    const MANY = 30_000;
    const keys = Array.from({ length: MANY }, (_, i) => `k${i}: v\n`).join("");
    const [object] = yaml(keys);
    assert.equal(Object.keys(object ?? {}).length, MANY);
    const named = (count: number): string => Array.from({ length: count }, (_, i) => `- &a${i} v\n- *a${i}\n`).join("");
    assert.equal([yaml(named(500))].flat(2).length, 1000);
    assert.equal(yaml(`${named(400)}---\n`.repeat(3)).length, 3, "of each document");
    assert.match(
      refusalOf(() => yaml(named(MANY))),
      /^line 1001: more than 1000 anchors and aliases/,
    );
    assert.equal([yaml("- '*a'\n- |\n  *a\n- \"&a\"\n- a*b&c\n".repeat(MANY / 10))].flat(2).length, (4 * MANY) / 10);
  }).timeout(20_000);

  it("DAEMON-01: any text is objects or a refusal of ours", () => {
    const piece = fc.constantFrom(
      "a: ",
      "- ",
      "\n",
      "  ",
      "---\n",
      "&x ",
      "*x ",
      "<<: ",
      "[",
      "]",
      "{",
      "}",
      '"',
      "!!set ",
      "? ",
      "|\n",
      "%YAML 1.2\n",
      "\t",
      "1:30",
      "\u0000",
    );
    const text = fc.oneof(
      fc.string(),
      fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join("")),
    );
    fc.assert(
      fc.property(text, fc.constantFrom("a.yaml", "a.json"), (content, name) => {
        try {
          assert.ok(Array.isArray([...readObjects(content, name)]));
        } catch (error) {
          assert.ok(error instanceof DrawbridgeError && !error.message.includes("\n"), String(error));
        }
      }),
      { numRuns: 3000 },
    );
  });
});
