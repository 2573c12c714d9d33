import assert from "node:assert/strict";
import { csvLine } from "../../../../cli/output/csv.ts";
import { formatDot, formatMermaid } from "../../../../cli/output/graph.ts";
import { formatTable } from "../../../../cli/output/table.ts";
import { writeAll } from "../../../../cli/output/write_all.ts";

describe("cli/output: printers", () => {
  it("a table has columns as wide as their texts without colours, and folds the last one", () => {
    const rows = [
      ["\u001b[1mweb\u001b[22m", "x y z", "one two three four five six seven"],
      ["database", "", "eight"],
    ];
    assert.equal(
      formatTable(["name", "b", "rest"], rows, 41),
      "NAME       B       REST\n" +
        "\u001b[1mweb\u001b[22m        x y z   one two three four\n" +
        "                   five six seven\n" +
        "database           eight\n",
    );
  });

  it("CSV is quoted where necessary, and no text from input begins a formula", () => {
    assert.equal(csvLine(["a", 1, true, 'say "x"', "p,q", "a\nb"]), 'a,1,true,"say ""x""","p,q","a\nb"\r\n');
    for (const begin of ["=", "+", "-", "@"]) assert.equal(csvLine([`${begin}1`]), `'${begin}1\r\n`);
  });

  it("names cannot leave their quotes in a graph", () => {
    const graph = { names: ['a/"];x', "b\\"], edges: [{ from: 'a/"];x', to: "b\\", label: '"', isPartly: false }] };
    assert.match(formatDot(graph), /"a\/\\"\];x" -> "b\\\\" \[label="\\""\];/);
    assert.match(formatMermaid(graph), /n0\["#quot;\];x"\]/);
    assert.match(formatMermaid(graph), /n0 -->\|"#quot;"\| n1/);
  });

  it("many texts are written in few chunks and in order", () => {
    const pieces: string[] = [];
    writeAll(
      { write: (text) => void pieces.push(text) },
      Array.from({ length: 100_000 }, (_, i) => `${i}\n`),
    );
    assert.equal(pieces.join(""), Array.from({ length: 100_000 }, (_, i) => `${i}\n`).join(""));
    assert.ok(pieces.length <= 3, String(pieces.length));
  });
});
