import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";

const POD = "apiVersion: v1\nkind: Pod\nmetadata: { name: shop }\n";

/** Runs the real command line on a directory. @param stdout a file for its output */
function lint(directory: string, args: readonly string[], stdout = ""): { code: number | null; err: string } {
  const redirection = stdout === "" ? "" : ` > ${stdout}`;
  const command = [process.execPath, "cli/main.ts", "policy", "lint", "--quiet", "-f", directory, ...args].join(" ");
  const { status, stderr } = spawnSync("/bin/sh", ["-c", `${command}${redirection}`], { encoding: "utf8" });
  return { code: status, err: stderr };
}

describe("cli/process_io", () => {
  let directory = "";

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), "drawbridge-cli-"));
    writeFileSync(path.join(directory, "a.yaml"), POD);
  });

  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  it("CLI-03: a link to a directory is not followed, since a cycle would be read endlessly", () => {
    mkdirSync(path.join(directory, "r"));
    for (const name of ["self", "again"]) symlinkSync("..", path.join(directory, "r", name));
    assert.deepEqual(lint(directory, ["-R"]), { code: 0, err: "" });
  });

  it("CLI-03: a manifest that is a broken or circular link is an error, and links with other names are ignored", () => {
    symlinkSync("loop", path.join(directory, "loop"));
    assert.deepEqual(lint(directory, []), { code: 0, err: "" });
    for (const [name, to] of [
      ["b.yaml", "nowhere"],
      ["c.json", "c.json"],
    ] as const) {
      const link = path.join(directory, name);
      symlinkSync(to, link);
      const { code, err } = lint(directory, []);
      assert.equal(code, 3);
      assert.ok(err.includes(`${link}: expected a file; remove it if it is a link that leads nowhere`), err);
      rmSync(link);
    }
  });

  it("CLI-09: an error of the system is reported in one line, without a stack trace", () => {
    const long = lint("a".repeat(300), []);
    assert.deepEqual([long.code, long.err.split("\n").length], [3, 2], long.err);
    assert.match(long.err, /ENAMETOOLONG/);
    const full = lint(directory, [], "/dev/full");
    assert.deepEqual([full.code, full.err.split("\n").length], [3, 2], full.err);
    assert.match(full.err, /standard output: ENOSPC/);
  });
});
