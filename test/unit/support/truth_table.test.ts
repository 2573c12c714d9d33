import assert from "node:assert/strict";
import { differenceText, type Mark, type TruthTable, wrongCells } from "../../support/policy/lab/truth_table.ts";

const table = (marks: Readonly<Record<string, Mark>>): TruthTable => ({
  title: "IPv4",
  ends: ["x/a", "x/b"],
  traffics: ["80/TCP", "80/UDP"],
  mark: (from, to, traffic) => marks[`${from} ${to} ${traffic}`] ?? ".",
});

describe("truth table", () => {
  it("is empty where nothing differs", () => {
    assert.equal(differenceText(table({}), table({})), "");
    assert.equal(wrongCells(table({ "x/a x/b 80/TCP": "X" }), table({ "x/a x/b 80/TCP": "X" })), 0);
  });

  it("has the expected cells, the seen ones, and the difference", () => {
    const expected = table({ "x/a x/b 80/TCP": "X", "x/b x/a 80/UDP": "X" });
    const seen = table({ "x/a x/b 80/TCP": "R", "x/b x/a 80/UDP": "X" });
    assert.equal(
      differenceText(expected, seen),
      [
        "IPv4: 1 wrong, 7 correct",
        "Each cell: 80/TCP 80/UDP; . allowed, X denied, R refused, ? not decided; a row sends",
        "expected",
        "    x/a x/b",
        "x/a ..  X.",
        "x/b .X  ..",
        "seen",
        "    x/a x/b",
        "x/a ..  R.",
        "x/b .X  ..",
        "seen where it differs",
        "    x/a x/b",
        "x/a --  R-",
        "x/b --  --",
      ].join("\n"),
    );
  });
});
