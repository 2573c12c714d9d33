import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { endProcesses, hasEnded, leftoverProcesses } from "../../support/leftover.ts";

describe("test support: leftover processes", () => {
  it("finds a running child, and no child that has ended", async () => {
    const child = spawn("sleep", ["60"]);
    await once(child, "spawn");
    const found = (await leftoverProcesses(0)).filter(({ pid }) => pid === child.pid);
    assert.deepEqual(found, [{ pid: child.pid, commandLine: "sleep 60" }]);
    endProcesses(found);
    await once(child, "exit");
    assert.ok((await leftoverProcesses(0)).every(({ pid }) => pid !== child.pid));
    assert.doesNotThrow(() => endProcesses(found));
  });

  it("distinguishes a zombie from a process whose name looks like one", () => {
    assert.equal(hasEnded("12 (sleep) Z 1 12"), true);
    assert.equal(hasEnded("12 (a) Z (b) S 1 12"), false);
    assert.equal(hasEnded("12 (sleep) S 1 12"), false);
  });
});
