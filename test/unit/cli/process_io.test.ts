import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { terminalText } from "../../../cli/output/markup.ts";
import { processIo } from "../../../cli/process_io.ts";
import { runCli } from "../../support/cli/cli.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";

const POD = "apiVersion: v1\nkind: Pod\nmetadata: { name: shop }\n";

/** Lints a directory with this process's access to files. */
async function lint(directory: string, ...more: readonly string[]): Promise<{ code: number; err: string }> {
  const { code, err } = await runCli(["policy", "lint", "--quiet", "-f", directory, ...more], processIo().files);
  return { code, err };
}

/** Lints a directory by a process of its own. @param stdout a file for its output */
function lintApart(directory: string, redirection = ""): { code: number | null; err: string } {
  const command = [process.execPath, "cli/main.ts", "policy", "lint", "--quiet", "-f", directory].join(" ");
  const { status, stderr } = spawnSync("/bin/sh", ["-c", `${command} ${redirection}`], { encoding: "utf8" });
  return { code: status, err: stderr };
}

describe("cli/process_io", () => {
  const directory = useTemporaryDirectory();

  beforeEach(() => writeFileSync(path.join(directory(), "a.yaml"), POD));

  it("CLI-03: a link to a directory is not followed, since a cycle would be read endlessly", async () => {
    mkdirSync(path.join(directory(), "r"));
    for (const name of ["self", "again"]) symlinkSync("..", path.join(directory(), "r", name));
    assert.deepEqual(await lint(directory(), "-R"), { code: 0, err: "" });
  });

  it("CLI-03: a manifest that is a broken or circular link is an error, and links with other names are ignored", async () => {
    symlinkSync("loop", path.join(directory(), "loop"));
    assert.deepEqual(await lint(directory()), { code: 0, err: "" });
    for (const [name, to] of [
      ["b.yaml", "nowhere"],
      ["c.json", "c.json"],
    ] as const) {
      const link = path.join(directory(), name);
      symlinkSync(to, link);
      const { code, err } = await lint(directory());
      assert.equal(code, 3);
      assert.ok(err.includes(`${link}: expected a file; remove it if it is a link that leads nowhere`), err);
      rmSync(link);
    }
  });

  it("CLI-42: characters that a terminal obeys are written out, whatever prints them, and readers of JSON get them back", () => {
    const name = "a\u001b]0;x\u0007\r\u009b2J\u202e\u2028\u{e0041}.yaml";
    const file = path.join(directory(), name);
    const policy =
      "kind: NetworkPolicy\nmetadata: { name: p }\nspec: { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { a: b } } }] }] }";
    writeFileSync(file, `${POD}---\napiVersion: networking.k8s.io/v1\n${policy}\n`);
    const printed = [
      [name],
      ["policy", "lint", "-f", `${file}.yaml`],
      ["policy", "lint", "-o", "json", "-f", file],
    ].map((args) => {
      const { stdout, stderr } = spawnSync(process.execPath, ["cli/main.ts", ...args], { encoding: "utf8" });
      const all = stdout + stderr;
      assert.doesNotMatch(all, /(?!\n)[\p{Cc}\p{Cf}\p{Zl}]/u, args.join(" "));
      assert.match(all, /a\\u\{?(00)?1b/, args.join(" "));
      return stdout;
    });
    assert.ok(JSON.stringify(JSON.parse(printed.at(-1) ?? "")).includes(JSON.stringify(name).slice(1, -1)));
  });

  for (const [what, text, hasColour, expected] of [
    ["a colour on a terminal stays", "\n[1m\u001b[31mé😀\u001b[0m", true, "\n[1m\u001b[31mé😀\u001b[0m"],
    ["a colour is written out where there is none", "\u001b[31mr", false, "\\u001b[31mr"],
    ["what looks like a colour is not one", "\u001b[2J\u0007[2m", true, "\\u001b[2J\\u0007[2m"],
  ] as const) {
    it(`CLI-42: ${what}`, () => assert.equal(terminalText(text, hasColour), expected));
  }

  it("CLI-02: an error of the system is reported in one line, without a stack trace", () => {
    const long = lintApart("a".repeat(300));
    assert.deepEqual([long.code, long.err.split("\n").length], [3, 2], long.err);
    assert.match(long.err, /ENAMETOOLONG/);
    const full = lintApart(directory(), "> /dev/full");
    assert.deepEqual([full.code, full.err.split("\n").length], [3, 2], full.err);
    assert.match(full.err, /standard output: ENOSPC/);
    assert.equal(lintApart(directory(), "> /dev/full 2> /dev/full").code, 3);
  });
});
