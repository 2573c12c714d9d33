import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { isOurExecutable, isSameContent } from "../../../../cli/node/machine/read_files.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";

const MEBIBYTE = 1024 * 1024;

describe("cli/node: recognizing our programs", () => {
  const directory = useTemporaryDirectory();

  function file(name: string, content: string): string {
    writeFileSync(`${directory()}/${name}`, content);
    return `${directory()}/${name}`;
  }

  it("UNINSTALL-01: our plugin is recognized by its words anywhere in the file, and other files are not", () => {
    for (const before of [0, 1, MEBIBYTE]) {
      assert.ok(isOurExecutable(file("program", `${"-".repeat(before)}Drawbridge CNI plugin`)), `after ${before}`);
    }
    for (const content of ["", "Drawbridge CNI plugi", "-".repeat(MEBIBYTE)]) {
      assert.ok(!isOurExecutable(file("program", content)), content.slice(0, 20));
    }
  });

  it("DOCTOR-01: files are compared by their content", () => {
    const content = "x".repeat(MEBIBYTE + 7);
    const one = file("one", content);
    symlinkSync(one, `${directory()}/link`);
    assert.equal(isSameContent(one, `${directory()}/link`), true);
    assert.equal(isSameContent(one, file("copy", content)), true);
    assert.equal(isSameContent(one, file("other", `${content.slice(1)}y`)), false);
    assert.equal(isSameContent(one, file("longer", `${content}x`)), false);
    assert.equal(isSameContent(one, `${directory()}/missing`), undefined);
    assert.equal(isSameContent(one, directory()), undefined);
  });
});
