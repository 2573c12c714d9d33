import assert from "node:assert/strict";
import fc from "fast-check";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { readObjects } from "../../../../objects/yaml/documents.ts";
import { roundsFor } from "../../../support/long_form.ts";

const yaml = (text: string): unknown[] => [...readObjects(text, "a.yaml")];
const json = (text: string): unknown[] => [...readObjects(text, "a.json")];

function refusalOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_OBJECT", String(error));
    return error.message;
  }
  return assert.fail("the text was accepted");
}

describe("policyd/sources/directory/documents", () => {
  it("DAEMON-01: documents and lists are opened, and items of a typed list get its kind", () => {
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
    const nested = '{"kind":"List","items":[{"kind":"PodList","apiVersion":"v1","items":[{"a":1}]},{"kind":"B"}]}';
    const items = [{ kind: "B" }, { kind: "Pod", apiVersion: "v1", a: 1 }];
    assert.deepEqual([json(nested), yaml(`x: 1\n---\n${nested}`).slice(1)], [items, items]);
    assert.deepEqual(yaml("kind: List\nitems:\n- kind: List\n  items:\n  - kind: A\n  - kind: B\n"), [
      { kind: "A" },
      { kind: "B" },
    ]);
  });

  for (const [what, text, objects] of [
    [
      "words are booleans, and a tilde is null",
      `{a: yes, b: on, c: "yes", d: ~, e: Off}`,
      [{ a: true, b: true, c: "yes", d: null, e: false }],
    ],
    [
      "numbers have octal and hexadecimal notations, and times and addresses are texts",
      "{a: 0777, b: 0x1f, c: 1:30, d: 2020-01-01T00:00:00Z, e: 010.0.0.1}",
      [{ a: 511, b: 31, c: "1:30", d: "2020-01-01T00:00:00Z", e: "010.0.0.1" }],
    ],
    [
      "a merge after a key overwrites it",
      "b: &x {a: 1, c: 2}\nm:\n  a: 3\n  <<: *x\n",
      [{ b: { a: 1, c: 2 }, m: { a: 1, c: 2 } }],
    ],
    ["a key after a merge stays", "b: &x {a: 1}\nm:\n  <<: *x\n  a: 3\n", [{ b: { a: 1 }, m: { a: 3 } }]],
    [
      "of merged objects the first counts",
      "- &x {a: 1}\n- &y {a: 2, b: 3}\n- <<: [*x, *y]\n",
      [[{ a: 1 }, { a: 2, b: 3 }, { a: 1, b: 3 }]],
    ],
    [
      "a bracket may close at its key's indentation",
      "a:\n  b: [1,\n  2\n  ]\n  c: {d: 3,\n}\n",
      [{ a: { b: [1, 2], c: { d: 3 } } }],
    ],
    ["a quote may close at its key's indentation", "a: 'x\n'\nb: \"y\nz\"\n", [{ a: "x ", b: "y z" }]],
    ["JSON objects may follow each other", '{"a": 1}\n{"b": 2} {"c": 3}', [{ a: 1 }, { b: 2 }, { c: 3 }]],
    ["each document may have a byte order mark", "\u{feff}a: 1\n---\n\u{feff}b: 2\n", [{ a: 1 }, { b: 2 }]],
    ["a comment may follow a quote at once", "a: 'b'#c\n", [{ a: "b" }]],
    ["lines may end in a carriage return", "a: 1\rb:\r  c: 2\r", [{ a: 1, b: { c: 2 } }]],
    [
      "tags of numbers and unknown tags are accepted",
      "a: !!float 1\nb: !local x\nc: !!str 1\n",
      [{ a: 1, b: "x", c: "1" }],
    ],
    ["octal numbers have two notations", "a: 0o120\nb: 0120\n", [{ a: 80, b: 80 }]],
    ["a line of three dots ends the document", "a: 1\n...\nb: 2\n---\nc: 3\n", [{ a: 1 }, { c: 3 }]],
    [
      "numbers as keys are texts",
      "8080: a\n1.5: b\n0x1f: c\nyes: d\n",
      [{ "8080": "a", "1.5": "b", "31": "c", true: "d" }],
    ],
    ["a number beyond all numbers is a text", "a: 1e400\n", [{ a: "1e400" }]],
    [
      "a colon directly before a comma or a bracket belongs to the text before it",
      "a: [http:, b :, {c:}]\nd: {e:, f: g:, h: [[&x i:], j: k:]}\n",
      [{ a: ["http:", "b :", { "c:": null }], d: { "e:": null, f: "g:", h: [["i:"], { j: "k:" }] } }],
    ],
    [
      "a dash directly before a comma or a bracket is a text",
      "a: [-, b, [-]]\nd: {-, e: -}\n",
      [{ a: ["-", "b", ["-"]], d: { "-": null, e: "-" } }],
    ],
    [
      "a binary number may have its sign after 0b",
      "a: [0b-1, 0b+1, -0b1, -0b-1, 0B-1]\n0b-10: b\n",
      [{ a: [-1, 1, -1, "-0b-1", "0B-1"], "-2": "b" }],
    ],
    [
      "a colon after a quote, or before a blank, ends a key within brackets",
      'a: {"b":, c: , d:\n}\ne: ["f":, g: ]\n',
      [{ a: { b: null, c: null, d: null }, e: [{ f: null }, { g: null }] }],
    ],
  ] as const) {
    it(`YAML-01: as in kubectl, ${what}`, () => assert.deepEqual(yaml(text), objects));
  }

  for (const [what, text, message] of [
    ["a document separator with text", "a: 1\n--- b: 2\n", /^line 2: --- is followed by "b: 2"/],
    ["a directive", "%YAML 1.1\n---\na: 1\n", /^line 1: the directive %YAML 1.1; expected none$/],
    ["a key without a name", "a: 1\n~: 2\n", /^line 2: a key that is not a text/],
    ["a key that is a list", "? [a]\n: 1\n", /^line 1: a key that is not a text/],
    [
      "a tag that does not fit",
      "a: 1\nb: !!int x\n",
      /^line 2: "x" with the tag tag:yaml.org,2002:int; expected a value/,
    ],
    ["a number that JSON does not have", "a: 1\n---\nb: .nan\n", /^line 3: ".nan"; expected a value that JSON has$/],
    ["a merge of a number", "a: 1\n<<: 2\n", /^line 2: << expects an object/],
    ["a value that contains itself", "a: &x [*x]\n", /^line 1: the value of &x contains itself$/],
    ["an alias without an anchor", "a: *x\nb: &x 1\n", /^line 1: \*x has no anchor before it$/],
    ["an object directly after a colon", "a:\n- {b:{c: 1}}\n", /^line 2: two entries within brackets have no comma/],
    ["a control character", "a: 1\nb: \u{7}\n", /^line 2: the character U\+0007; expected text$/],
  ] as const) {
    it(`YAML-01: ${what} is refused with its line, as kubectl refuses it`, () => {
      assert.match(
        refusalOf(() => yaml(text)),
        message,
      );
    });
  }

  it("DAEMON-01: aliases that multiply and endless nesting are refused", () => {
    const row = (i: number) =>
      `b${i}: &b${i} [${Array.from({ length: 9 }, () => (i === 0 ? "x" : `*b${i - 1}`)).join(",")}]`;
    assert.match(
      refusalOf(() => yaml(Array.from({ length: 7 }, (_, i) => row(i)).join("\n"))),
      /^line \d+: aliases stand for more than 400000 values$/,
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

  it("DAEMON-01: a duplicate key is found at any place, and the first one in the text is named", () => {
    for (const [text, line] of [
      ["a:\n  - b: 1\n    c: 2\n    b: 3\nd: 1\nd: 2\n", 4],
      ["a: 1\na: 2\nb: {c: 1, c: 2}\n", 2],
      ["a: {b: 1,\n b: 2}\n", 2],
      ['"a": 1\n? a\n: 2\n', 2],
      ["yes: 1\non: 2\n", 2],
    ] as const) {
      assert.match(
        refusalOf(() => yaml(text)),
        new RegExp(`^line ${line}: a key stands twice in one object`),
        text,
      );
    }
    assert.deepEqual(yaml("a: {b: 1}\nb: {b: 1}\n"), [{ a: { b: 1 }, b: { b: 1 } }]);
  });

  it("DAEMON-01: a document with tens of thousands of keys, anchors and aliases is read in linear time", () => {
    const MANY = 30_000;
    const keys = Array.from({ length: MANY }, (_, i) => `k${i}: v\n`).join("");
    const [object] = yaml(keys);
    assert.equal(Object.keys(object ?? {}).length, MANY);
    const named = Array.from({ length: MANY }, (_, i) => `- &a${i} v\n- *a${i}\n`).join("");
    assert.equal([yaml(named)].flat(2).length, 2 * MANY);
  }).timeout(20_000);

  it("DAEMON-01: any text gives either objects or a DrawbridgeError", () => {
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
      { numRuns: roundsFor("random cases", 800, 10_000) },
    );
  });
});
