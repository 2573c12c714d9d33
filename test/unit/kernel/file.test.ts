import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isDirectory, listDirectory, readTextFile, writeAll } from "../../../kernel/file.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { type FileCalls, OpenFlag } from "../../../kernel/syscall/file_calls.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";

const files: FileCalls = nodeSyscalls();

describe("kernel/file", () => {
  const directory = useTemporaryDirectory();
  const inDirectory = (name: string): string => path.join(directory(), name);

  it("readTextFile reads a text of any length up to the limit, and refuses a longer one with EFBIG", () => {
    for (const length of [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000]) {
      const text = "é".repeat(Math.floor(length / 2)) + "x".repeat(length % 2);
      writeFileSync(inDirectory("text"), text);
      assert.equal(readTextFile(files, inDirectory("text"), length), text);
      if (length === 0) continue;
      assert.throws(() => readTextFile(files, inDirectory("text"), length - 1), {
        code: "ERR_SYSCALL",
        message: /: EFBIG/,
      });
    }
  });

  it("listDirectory lists more entries than one system call returns", () => {
    mkdirSync(inDirectory("many"));
    const names = Array.from({ length: 800 }, (_, i) => `${i}-é-${"n".repeat(i % 40)}`);
    for (const name of names) writeFileSync(inDirectory(`many/${name}`), "");
    assert.deepEqual(listDirectory(files, inDirectory("many"))?.toSorted(), names.toSorted());
    assert.equal(isDirectory(files, inDirectory("many")), true);
  });

  it("writeAll continues after a partial write, and calls that a signal interrupted are repeated", () => {
    const target = inDirectory("written");
    const fd = files.open(target, OpenFlag.WRONLY | OpenFlag.CREAT, 0o600);
    let calls = 0;
    const hesitant: FileCalls = {
      ...files,
      write: (to, data) => (++calls % 2 === 0 ? -Errno.EINTR : files.write(to, data.subarray(0, 3))),
    };
    writeAll(hesitant, fd, new TextEncoder().encode("10.244.1.7\r\neth0"), target);
    files.close(fd);
    assert.equal(readFileSync(target, "utf8"), "10.244.1.7\r\neth0");
    let reads = 0;
    const interrupted: FileCalls = {
      ...files,
      read: (from, buffer) => (++reads % 2 === 1 ? -Errno.EINTR : files.read(from, buffer.subarray(0, 2))),
    };
    assert.equal(readTextFile(interrupted, target, 100), "10.244.1.7\r\neth0");
  });
});
