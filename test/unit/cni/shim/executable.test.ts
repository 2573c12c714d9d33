import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { shimExecutable } from "../../../../cni/shim/executable.ts";

/** The machine of this test run: the tests run on Node 24, on one of the two machines that have a shim. */
const machine = process.arch === "arm64" ? "arm64" : "x64";

/** The program of the fake plugin, which is Node under the plugin's name: it prints how it was called. */
const TELL =
  "process.stdout.write(JSON.stringify([process.argv0, process.argv.slice(1), process.env, " +
  "require('fs').readFileSync(0, 'utf8')])); process.exitCode = 7";

describe("cni/shim: the executable itself", () => {
  let directory = "";
  let shim = "";

  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), "drawbridge-shim-"));
    shim = path.join(directory, "drawbridge");
    const runDirectory = path.join(directory, "run");
    const parameters = { machine, runDirectory, pluginName: "plugin", serverEnvironment: ["SERVER=yes"] } as const;
    writeFileSync(shim, shimExecutable(parameters));
    chmodSync(shim, 0o755);
  });
  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  it("arguments, environment, standard input and the exit code pass between its caller and the plugin (SHIM-01)", () => {
    symlinkSync(process.execPath, path.join(directory, "plugin"));
    symlinkSync("drawbridge", path.join(directory, "loopback"));
    const input = "x".repeat(200_000);
    const env = { CNI_COMMAND: "ADD", EMPTY: "" };
    const called = spawnSync(path.join(directory, "loopback"), ["-e", TELL, "b c", ""], {
      argv0: "/somewhere/loopback",
      input,
      env,
      encoding: "utf8",
    });
    assert.deepEqual([called.status, called.stderr], [7, ""]);
    assert.deepEqual(JSON.parse(called.stdout), ["/somewhere/loopback", ["b c", ""], env, input]);
  });

  it("one server starts for later calls, which holds the lock and nothing of the caller's (SHIM-06)", async function () {
    this.timeout(20_000);
    const seen = path.join(directory, "seen");
    // As the server the script waits until the test has called once more; as the plugin it does nothing.
    const plugin = `#!/bin/sh
if [ "$SERVER" != yes ]; then exit 0; fi
{ echo "$@"; pwd; env; for fd in 0 1 2 3 4 5 6; do readlink /proc/$$/fd/$fd; done; } >${seen}.part
echo once >>${seen}.starts
mv ${seen}.part ${seen}
for i in 1 2 3 4 5 6 7 8 9 10; do if [ -e ${seen}.done ]; then exit 0; fi; sleep 1; done
`;
    writeFileSync(path.join(directory, "plugin"), plugin, { mode: 0o755 });
    assert.equal(spawnSync(shim, { input: "" }).status, 0);
    for (let waited = 0; !existsSync(seen); waited += 20) {
      assert.ok(waited < 10_000, "no server wrote its descriptors within 10 s");
      await sleep(20);
    }
    assert.equal(spawnSync(shim, { input: "" }).status, 0);
    assert.equal(readFileSync(`${seen}.starts`, "utf8"), "once\n");
    writeFileSync(`${seen}.done`, "");

    const lines = readFileSync(seen, "utf8").trimEnd().split("\n");
    assert.deepEqual(lines.slice(0, 2), [path.join(directory, "run"), "/"]);
    assert.ok(lines.includes("SERVER=yes"));
    assert.ok(!lines.some((line) => line.startsWith("HOME=")), "the server has the caller's environment");
    assert.ok(lines.includes(path.join(directory, "run", "lock")));
    assert.ok(lines.includes("/dev/null"));
  });

  it("the error of a shim without a plugin beside it is that of the specification (SHIM-01)", () => {
    const called = spawnSync(shim, { input: "{}", encoding: "utf8" });
    assert.deepEqual([called.status, called.stderr], [1, ""]);
    assert.partialDeepStrictEqual(JSON.parse(called.stdout), { cniVersion: "1.1.0", code: 5 });
    assert.match(called.stdout, /"msg":"plugin: cannot be executed/);
  });
});
