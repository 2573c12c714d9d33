import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { BUNDLE } from "../../support/daemon/policyd.ts";

/** Node's modules that take some milliseconds each to read. */
const LARGE = ["crypto", "dns", "fs/promises", "http", "http2", "https", "net", "stream", "tls", "zlib"];
/** The limit in characters. All code is compiled before anything runs. */
const MOST_CODE = 512 * 1024;

/** Returns the files of the bundle that are read before the first line of a file runs, with that file. */
function readWith(file: string, known = new Set<string>()): ReadonlySet<string> {
  if (known.has(file)) return known;
  known.add(file);
  for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/\bfrom"(\.\/[^"]+)"/g)) {
    readWith(path.join(path.dirname(file), name), known);
  }
  return known;
}

describe("the part of the daemon that is read before pods are closed", () => {
  const files = [...readWith(BUNDLE)];
  const code = files.map((file) => readFileSync(file, "utf8")).join("\n");

  it("DP-20: the early part is small, reads none of Node's large modules, and no module of Node as a whole", () => {
    assert.ok(files.length > 1, "the early part has files that the rest of the daemon reads, too");
    assert.ok(code.length < MOST_CODE, `${code.length} characters`);
    const asked = [...code.matchAll(/getBuiltinModule\("node:([^"]+)"\)/g)].map(([, name]) => name);
    assert.ok(asked.includes("fs"), asked.join());
    assert.deepEqual(
      LARGE.filter((name) => asked.includes(name)),
      [],
    );
    assert.doesNotMatch(code, /\bfrom"node:/);
  });
});
