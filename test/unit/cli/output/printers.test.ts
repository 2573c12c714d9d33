import assert from "node:assert/strict";
import { markdownGraph } from "../../../../cli/output/graph.ts";
import { formatTable } from "../../../../cli/output/table.ts";

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

  it("PAGE-05: no name leaves its quotes, or is markup, in a graph of Markdown", () => {
    const evil = 'a/"];x<img src=x onerror=1>\n```';
    const edge = { from: evil, to: "b\\", label: '"', isPartly: false };
    const text = markdownGraph({ names: [evil, "b\\"], edges: [edge] });
    assert.match(text, /^ {4}n0\["#34;#93;#59;x#60;img src#61;x onerror#61;1#62;#92;u#123;a#125;#96;#96;#96;"\]$/m);
    assert.match(text, /^ {2}n0 -->\|"#34;"\| n1$/m);
    assert.equal(markdownGraph({ names: [], edges: Array.from({ length: 41 }, () => edge) }), "");
  });
});
