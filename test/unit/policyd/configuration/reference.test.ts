import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readCommandLine } from "../../../../policyd/configuration/command_line.ts";
import { readConfiguration } from "../../../../policyd/configuration/configuration.ts";

describe("docs/configuration.md", () => {
  const text = readFileSync("docs/configuration.md", "utf8");
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (?:`([^`]+)` )?\|/gm)].map(([, field = "", flag = ""]) => ({
    field,
    flag,
  }));

  it("DAEMON-04: the reference names the flag of each field, and every flag", () => {
    for (const { field, flag } of rows.filter((row) => row.flag !== "")) {
      const isSwitch = ["tableOwner", "dropLog", "flowLedger"].includes(field);
      const args = isSwitch ? [flag] : [flag, "x"];
      assert.deepEqual(Object.keys(readCommandLine(args, "", () => undefined).flags), [field]);
    }
    let help = "";
    assert.throws(() => readCommandLine(["--help"], "", (part) => (help += part)));
    const flags = [...help.matchAll(/^\s+(--[a-z-]+)/gm)].map(([, flag]) => flag);
    const named = ["--config", "--network-namespace", ...rows.map(({ flag }) => flag).filter((flag) => flag !== "")];
    assert.deepEqual(
      flags.filter((flag) => !named.includes(flag ?? "")),
      [],
    );
    assert.ok(flags.length > 10);
  });

  it("DAEMON-04: the reference shows a file that is accepted", () => {
    const [, example = ""] = /```yaml\n([^`]+)```/.exec(text) ?? [];
    assert.equal(readConfiguration({ path: "example.yaml", text: example }, {}).minSyncPeriod, 500);
  });
});
