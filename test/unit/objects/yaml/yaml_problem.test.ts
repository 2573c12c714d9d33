import assert from "node:assert/strict";
import { readYamlObjects } from "../../../../objects/yaml/documents.ts";

/** Returns the message with which a text is refused, or an empty text if it can be read. */
function messageOf(text: string): string {
  try {
    for (const _ of readYamlObjects(text));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return "";
}

describe("policyd/sources/yaml: mistakes in YAML", () => {
  it("CLI-02: the message for each mistake says in plain words the line, the fault and the expectation", () => {
    const cases: readonly (readonly [text: string, message: RegExp])[] = [
      ["kind: Pod\nmetadata:\n\tname: a\n", /^line 3: a line is indented by a tab; expected blanks$/],
      ["a: 'x\n", /^line \d: a quote is opened and not closed; expected the same quote at the end of the text$/],
      ["a: [b, c\n", /^line \d: a \[ is not closed; expected \] after its last entry$/],
      ["a: {b: c\n", /^line \d: a \{ is not closed; expected \} after its last entry$/],
      [
        "a:\n  - b\n c: d\n",
        /^line 3: a line is indented otherwise than its neighbours; expected the same number of blanks/,
      ],
      ["a: b: c\n", /^line 1: a line has two keys \(`a: b: c`\)/],
      [
        "a\nb: c\n",
        /^line 1: a line is neither `key: value` nor the rest of the text before it; is a colon or a quote missing/,
      ],
      ["a: @b\n", /^line 1: a value begins with a sign that YAML reserves; expected quotes around such a text$/],
      ['a: "\\q"\n', /^line 1: a text in "quotes" has a \\ that YAML does not know/],
      ["a: 1\na: 2\n", /^line 2: a key stands twice in one object/],
      ["- a\nb\n", /^line 2: a sign that has no place here; is a bracket, a quote or a comma missing before it\?$/],
    ];
    for (const [text, expected] of cases) assert.match(messageOf(text), expected, text);
  });
});
