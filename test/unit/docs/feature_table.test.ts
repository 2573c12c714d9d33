import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** Returns the rows of the table of features in docs/cli.md, without its head. */
function rows(): readonly (readonly string[])[] {
  const section = readFileSync("docs/cli.md", "utf8").split("\n## Beside other tools\n")[1] ?? "";
  const lines = section.split("\n").filter((line) => line.startsWith("| "));
  return lines.slice(1).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

describe("docs/cli.md: the table of features", () => {
  it("CLI-36: each row has an answer for each tool, and every no on our side has its reason", () => {
    const table = rows();
    assert.ok(table.length >= 15);
    for (const [question = "", ours = "", ...rest] of table) {
      const [reason = ""] = rest.splice(3);
      assert.equal(rest.length, 3, question);
      for (const answer of [ours, ...rest]) assert.match(answer, /^(yes|no|part)$/, question);
      if (ours !== "yes") assert.ok(reason.length > 20, `${question}: no reason`);
    }
    assert.ok(table.some(([, ours]) => ours === "no"));
  });
});
