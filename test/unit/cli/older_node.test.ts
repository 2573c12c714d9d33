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

  it("CLI-12: Node 20, which lacks zstd and markAsUncloneable, loads what reads clusters", () => {
    const script = `
      import workers from "node:worker_threads";
      import zlib from "node:zlib";
      delete Map.groupBy;
      delete zlib.createZstdDecompress;
      delete workers.markAsUncloneable;
      process.argv = ["node", "drawbridge", ...JSON.parse(process.env.ARGUMENTS)];
      await import("./cli/main.ts");`;
    for (const args of [
      ["policy", "matrix", "--cluster"],
      ["policy", "status"],
      ["policy", "explain", "--cluster", "--from", "a/b", "--to", "a/c", "--port", "80"],
      ["policy", "dry-run", "-f", "test/fixtures/cli/shop", "--against", "cluster"],
    ]) {
      const env = { ...process.env, ARGUMENTS: JSON.stringify(args), KUBECONFIG: "", HOME: "/nonexistent" };
      const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
        encoding: "utf8",
        env,
      });
      assert.equal(status, 3, stderr);
      assert.match(stderr, /kubeconfig: there is none; give one by --kubeconfig or in KUBECONFIG/);
    }
  });
});
