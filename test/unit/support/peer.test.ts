import assert from "node:assert/strict";
import process from "node:process";
import fc from "fast-check";
import { buildInformation, peerRefusal, peerVersion } from "../../support/cni/peer.ts";

const MODULES =
  "path\texample.org/plugins/bridge\nmod\texample.org/plugins\tv1.9.1\th1:abc=\ndep\texample.org/x\tv9.9.9\th1:d=\n";

/** Returns a program with build information as Go's linker writes it since Go 1.18. */
function goProgram(modules: string): Buffer {
  const header = Buffer.alloc(32);
  header.write("\xff Go buildinf:", "latin1");
  header[14] = 8;
  header[15] = 2;
  return Buffer.concat([
    Buffer.from("\x7fELF and code\xff Go build, but not quite", "latin1"),
    header,
    prefixed(Buffer.from("go1.26.8")),
    prefixed(Buffer.concat([Buffer.alloc(16, 0xaa), Buffer.from(modules), Buffer.alloc(16, 0xbb)])),
    Buffer.alloc(100),
  ]);
}

function prefixed(text: Buffer): Buffer {
  const length: number[] = [];
  for (let rest = text.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) return Buffer.concat([Buffer.from(length), text]);
  }
}

describe("build information of a Go program", () => {
  it("is found after its magic string", () => {
    assert.equal(buildInformation(goProgram(MODULES)), MODULES);
  });

  it("is absent from anything else", () => {
    assert.equal(buildInformation(Buffer.from("#!/bin/sh\n")), undefined);
    assert.equal(buildInformation(new Uint8Array()), undefined);
    assert.equal(peerVersion(process.execPath), undefined, "Node is not a Go program");
  });

  it("of a program cut anywhere is read without an error", () => {
    const program = goProgram(MODULES);
    fc.assert(
      fc.property(fc.nat(program.length), (length) => {
        const found = buildInformation(program.subarray(0, length));
        assert.ok(found === undefined || found === MODULES);
      }),
    );
  });

  it("accepts plugins of 1.10.0 or of 1.9.1, and refuses others and a mixture with what is expected", () => {
    for (const version of ["1.10.0", "1.9.1"]) assert.equal(peerRefusal([version, version]), undefined);
    for (const versions of [["1.8.0", "1.8.0"], ["1.10.0", "1.9.1"], [undefined, "1.10.0"], []]) {
      assert.match(peerRefusal(versions) ?? "", /expected all of 1\.10\.0, or all of 1\.9\.1$/);
    }
  });
});
