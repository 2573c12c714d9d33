import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { symlinkSync } from "node:fs";
import path from "node:path";
import { acquireFileLock } from "../../../kernel/file_lock.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { FileCalls } from "../../../kernel/syscall/file_calls.ts";
import { nodeSyscalls, polledLock } from "../../../kernel/syscall/koffi.ts";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";

/** The real system calls, except that `lock` gives an answer; collects what was asked and which descriptors were closed. */
class LockCalls {
  readonly waits: number[] = [];
  readonly closed: number[] = [];
  readonly calls: Syscalls & FileCalls;

  constructor(answer = 0) {
    this.calls = {
      ...nodeSyscalls(),
      lock: (_fd, milliseconds) => {
        this.waits.push(milliseconds);
        return answer;
      },
      close: (fd) => {
        this.closed.push(fd);
        return nodeSyscalls().close(fd);
      },
    };
  }
}

describe("kernel/file_lock", () => {
  const directory = useTemporaryDirectory();
  let lock = "";
  beforeEach(() => void (lock = path.join(directory(), "lock")));

  it("after ten seconds the error says how to find the holder, and the file is closed", () => {
    const syscalls = new LockCalls(-Errno.EAGAIN);
    assert.throws(() => acquireFileLock(syscalls.calls, lock), {
      code: "ERR_LOCK_TIMEOUT",
      message: `${lock}: held by another process for 10 s; see who with \`fuser ${lock}\``,
    });
    assert.deepEqual(syscalls.waits, [10_000]);
    assert.equal(syscalls.closed.length, 1);
  });

  it("a path that is not a regular file is refused at once, without a wait, and closed", () => {
    const pipe = path.join(directory(), "pipe");
    execFileSync("mkfifo", [pipe]);
    const link = path.join(directory(), "link");
    symlinkSync(lock, link);
    for (const [place, closed] of [
      [pipe, 1],
      [link, 0],
    ] as const) {
      const syscalls = new LockCalls();
      assert.throws(() => acquireFileLock(syscalls.calls, place), {
        code: "ERR_STORE",
        message: `${place}: not a regular file; expected the lock, an empty file: remove it`,
      });
      assert.equal(syscalls.closed.length, closed);
    }
    const syscalls = new LockCalls();
    assert.throws(() => acquireFileLock(syscalls.calls, directory()), { code: "ERR_STORE", message: /EISDIR/ });
  });

  it("acquireFileLock keeps other processes out until the lock is released, and waits for one that has it", async () => {
    const isFree = (): boolean => spawnSync("flock", ["--nonblock", lock, "true"]).status === 0;
    const release = acquireFileLock(nodeSyscalls(), lock);
    assert.equal(isFree(), false);
    release();
    assert.equal(isFree(), true);
    const holder = spawn("flock", ["--no-fork", lock, "sh", "-c", "echo held; exec sleep 0.2"]);
    await once(holder.stdout, "data");
    const start = performance.now();
    acquireFileLock(nodeSyscalls(), lock)();
    const waited = performance.now() - start;
    assert.ok(waited > 100 && waited < 2000, `${waited} ms`);
  });

  it("any other errno of flock is thrown at once, and the file is closed", () => {
    const syscalls = new LockCalls(-Errno.EBADF);
    assert.throws(() => acquireFileLock(syscalls.calls, lock), {
      code: "ERR_SYSCALL",
      message: /^flock .*: EBADF/,
    });
    assert.equal(syscalls.closed.length, 1);
  });

  it("on Node a held lock is tried again after short, growing pauses, also after a signal, until the time is over", () => {
    const pauses: number[] = [];
    let now = 1000;
    const waiting = {
      now: () => now,
      pause: (milliseconds: number) => {
        pauses.push(milliseconds);
        now += milliseconds;
      },
    };
    let tries = 0;
    const freed = (): number => (tries++ < 20 ? (tries === 3 ? -Errno.EINTR : -Errno.EAGAIN) : 0);
    assert.equal(polledLock(freed, 3, 10_000, waiting), 0);
    assert.equal(pauses.length, 20);
    assert.ok(pauses.every((pause) => pause > 0 && pause <= 4));
    assert.ok((pauses[0] ?? 1) <= 0.1);
    now = 1000;
    assert.equal(
      polledLock(() => -Errno.EAGAIN, 3, 10_000, waiting),
      -Errno.EAGAIN,
    );
    assert.ok(now >= 11_000 && now < 11_010, `${now} ms`);
    assert.equal(
      polledLock(() => -Errno.EBADF, 3, 10_000, waiting),
      -Errno.EBADF,
    );
  });
});
