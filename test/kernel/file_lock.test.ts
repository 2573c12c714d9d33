import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { acquireFileLock } from "../../kernel/file_lock.ts";
import { nodeSyscalls } from "../../kernel/syscall/koffi.ts";

describe("kernel/file_lock between processes, with flock(1)", () => {
  let directory = "";
  let lock = "";
  const holders: ChildProcess[] = [];
  before(() => {
    directory = mkdtempSync(path.join(tmpdir(), "drawbridge-flock-"));
    lock = path.join(directory, "lock");
  });
  after(() => {
    for (const holder of holders) holder.kill("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  });

  /** Returns whether another process could take the lock now. */
  function isFree(): boolean {
    return spawnSync("flock", ["--nonblock", lock, "true"]).status === 0;
  }

  /** Starts another process that holds the lock for some seconds, and waits until it has it. */
  async function hold(seconds: number): Promise<ChildProcess> {
    const holder = spawn("flock", ["--no-fork", lock, "sh", "-c", `echo held; exec sleep ${seconds}`], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    holders.push(holder);
    await once(holder.stdout, "data");
    return holder;
  }

  it("excludes another process until it is released", () => {
    const release = acquireFileLock(nodeSyscalls(), lock);
    assert.equal(isFree(), false);
    release();
    assert.equal(isFree(), true);
  });

  it("excludes a second holder in our own process, which gives up in time", () => {
    const releases = [acquireFileLock(nodeSyscalls(), lock)];
    const takeSecond = (): void => void releases.push(acquireFileLock(nodeSyscalls(), lock, 10));
    try {
      assert.throws(takeSecond, { code: "ERR_LOCK_TIMEOUT" });
    } finally {
      for (const release of releases) release();
    }
    acquireFileLock(nodeSyscalls(), lock, 10)();
  });

  it("waits for another process", async () => {
    await hold(0.2);
    const start = performance.now();
    acquireFileLock(nodeSyscalls(), lock)();
    const waited = performance.now() - start;
    assert.ok(waited > 100 && waited < 2000, `${waited} ms`);
  });

  it("gets the lock of a process that was killed", async () => {
    const holder = await hold(30);
    assert.equal(isFree(), false);
    holder.kill("SIGKILL");
    await once(holder, "exit");
    acquireFileLock(nodeSyscalls(), lock)();
  });
});
