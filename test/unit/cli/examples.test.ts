import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { processIo } from "../../../cli/process_io.ts";
import { runCli } from "../../support/cli/cli.ts";

const TERMINAL = { columns: 110, hasColour: false };
const PROMPT = "$ drawbridge ";

/** Returns each command in the `console` blocks of a file, and the output below it. */
function examplesIn(file: string): readonly { readonly command: string; readonly expected: string }[] {
  const blocks = [...readFileSync(file, "utf8").matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = ""]) => block);
  return blocks.flatMap((block) =>
    block
      .split(/^(?=\$ )/m)
      .filter((part) => part.startsWith(PROMPT))
      .map((part) => {
        const end = part.indexOf("\n");
        return { command: part.slice(PROMPT.length, end), expected: part.slice(end + 1) };
      }),
  );
}

describe("cli: examples in the documents", () => {
  for (const file of ["README.md", "docs/cli.md"]) {
    for (const { command, expected } of examplesIn(file)) {
      it(`CLI-11: ${file}: drawbridge ${command}`, async () => {
        const { out, err } = await runCli(command.split(" "), processIo().files, TERMINAL);
        assert.equal(out, expected, err);
      });
    }
  }

  it("CLI-11: docs/cli.md has examples", () => {
    assert.ok(examplesIn("docs/cli.md").length >= 4);
  });
});
