import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { readCommandLine } from "../../../../policyd/configuration/command_line.ts";
import { readConfiguration } from "../../../../policyd/configuration/configuration.ts";
import { entries, membersOf } from "../../../../policyd/configuration/schema.ts";

interface Row {
  readonly field: string;
  readonly flag: string;
  readonly default: string;
}

describe("docs/configuration.md", () => {
  const text = readFileSync("docs/configuration.md", "utf8");
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (?:`([^`]+)` )?\| (?:`([^`]+)`|none[^|]*) \| .{10,} \|$/gm)].map(
    ([, field = "", flag = "", initial = ""]): Row => ({ field, flag, default: initial }),
  );

  it("DAEMON-04: explains every field, in the order of the schema, and no other", () => {
    const fields = Object.keys(entries).flatMap(
      (field) => membersOf(field)?.map((member) => `${field}.${member}`) ?? [field],
    );
    assert.deepEqual(
      rows.map(({ field }) => field),
      fields,
    );
  });

  it("DAEMON-04: says the defaults that hold", () => {
    const { markBits } = readConfiguration(undefined, { nodeName: { value: "n", where: "" } });
    const defaults = Object.entries(entries).flatMap(([field, schema]) => {
      if (field === "markBits") return Object.values(markBits).map((bit) => `0x${bit.toString(16)}`);
      const value: unknown = schema.type === "optional" ? v.getDefault(schema) : undefined;
      const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
      return [isPlain ? String(value) : ""];
    });
    assert.deepEqual(
      rows.map((row) => row.default),
      defaults,
    );
  });

  it("DAEMON-04: names the flag of each field, and every flag", () => {
    for (const { field, flag } of rows.filter((row) => row.flag !== "")) {
      const args = field === "tableOwner" ? [flag] : [flag, "x"];
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

  it("DAEMON-04: shows a file that is accepted", () => {
    const [, example = ""] = /```yaml\n([^`]+)```/.exec(text) ?? [];
    assert.equal(readConfiguration({ path: "example.yaml", text: example }, {}).minSyncPeriod, 500);
  });
});
