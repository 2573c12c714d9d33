import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";

describe("cli/older_node", () => {
  it("CLI-12: Node 20, which lacks Map.groupBy, runs the command line", () => {
    const script = `
      delete Map.groupBy;
      process.argv = ["node", "drawbridge", "policy", "matrix", "-f", "test/fixtures/cli/shop", "--by", "namespace"];
      await import("./cli/main.ts");`;
    const { stdout, stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      encoding: "utf8",
    });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^from \\ to +kube-system/);
  });
});
