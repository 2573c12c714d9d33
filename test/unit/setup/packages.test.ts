import assert from "node:assert/strict";
import { npmCommand, stampOf } from "../../setup/packages.mjs";

describe("setup: npm packages", () => {
  it("have another stamp for another lock file or architecture", () => {
    const lockFile = Buffer.from("lock");
    assert.equal(stampOf(lockFile, "x64"), stampOf(Buffer.from("lock"), "x64"));
    assert.notEqual(stampOf(lockFile, "x64"), stampOf(Buffer.from("other"), "x64"));
    assert.notEqual(stampOf(lockFile, "x64"), stampOf(lockFile, "arm64"));
  });

  const node = { running: "/opt/node/bin/node", chosen: "/project/dist/.setup/node" };

  it("are installed with the npm that started us, on the chosen Node", () => {
    const command = npmCommand({ npm_execpath: "/npm/bin/npm-cli.js" }, node, () => true);
    assert.deepEqual(command, { command: node.chosen, args: ["/npm/bin/npm-cli.js"] });
  });

  it("are otherwise installed with the npm beside the running Node, or else the one in PATH", () => {
    const beside = npmCommand({}, node, (file) => file === "/opt/node/bin/npm");
    assert.deepEqual(beside, { command: "/opt/node/bin/npm", args: [] });
    const inPath = npmCommand({}, node, () => false);
    assert.deepEqual(inPath, { command: "npm", args: [] });
  });

  it("are not installed with another package manager", () => {
    const command = npmCommand({ npm_execpath: "/usr/lib/yarn/bin/yarn.js" }, node, () => false);
    assert.deepEqual(command, { command: "npm", args: [] });
  });
});
