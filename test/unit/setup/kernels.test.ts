import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CpioArchive } from "../../kernels/cpio.ts";
import { formatTable, rowOf } from "../../kernels/table.ts";

describe("test/kernels", () => {
  it("an archive has each directory once, before its files, and every part begins at a multiple of four", () => {
    const directory = mkdtempSync(path.join(tmpdir(), "drawbridge-cpio-"));
    try {
      const file = path.join(directory, "root.cpio");
      const archive = new CpioArchive(file);
      archive.file("usr/bin/a", Buffer.from("12345"), 0o755);
      archive.link("usr/bin/b", "a");
      archive.end();
      const bytes = readFileSync(file);
      const entries: [string, string, string][] = [];
      for (let at = 0; at < bytes.length;) {
        const header = bytes.toString("latin1", at, at + 110);
        assert.match(header, /^070701[0-9a-f]{104}$/);
        const [mode = "", size = "", nameSize = ""] = [14, 54, 94].map((offset) => header.slice(offset, offset + 8));
        const length = Number.parseInt(nameSize, 16);
        const name = bytes.toString("latin1", at + 110, at + 110 + length - 1);
        const content = (at + 110 + length + 3) & ~3;
        const end = content + Number.parseInt(size, 16);
        entries.push([name, Number.parseInt(mode, 16).toString(8), bytes.toString("latin1", content, end)]);
        at = (end + 3) & ~3;
      }
      assert.deepEqual(entries, [
        ["usr", "40755", ""],
        ["usr/bin", "40755", ""],
        ["usr/bin/a", "100755", "12345"],
        ["usr/bin/b", "120777", "a"],
        ["TRAILER!!!", "0", ""],
      ]);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("a cell says works, fails or not tested, by the subject in the title or by the file's name", () => {
    const guest = { file: "test/kernels/guest/smoke.ts", seconds: 1 };
    const failed = [{ title: "smoke guard: it holds", error: "no" }];
    const first = rowOf("6.1", [
      { ...guest, passed: ["smoke ADD, DEL: both", "smoke guard: other"], skipped: ["smoke SCTP: sockets"], failed },
      { file: "test/kernel/vxlan.test.ts", seconds: 1, passed: ["kernel/route vxlan a: b"], skipped: [], failed: [] },
    ]);
    assert.equal(
      formatTable([first, rowOf("5.10", [])]),
      "| kernel | ADD, DEL | guard | SCTP | vxlan |\n| --- | --- | --- | --- | --- |\n" +
        "| 6.1 | works | fails (1 of 2) | not tested | works |\n| 5.10 | - | - | - | - |\n",
    );
  });
});
