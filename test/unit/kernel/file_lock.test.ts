import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { acquireFileLock } from "../../../kernel/file_lock.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { FileCalls } from "../../../kernel/syscall/file_calls.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";

/** A clock that advances only by the pauses. */
class FakeWaiting {
  readonly pauses: number[] = [];
  #now = 1000;

  now(): number {
    return this.#now;
  }

  pause(milliseconds: number): void {
    this.pauses.push(milliseconds);
    this.#now += milliseconds;
  }
}

/**
 * The real system calls, except that flock answers from a list and then succeeds; `closed` collects the closed
 * descriptors.
 */
class LockCalls {
  readonly flockResults: number[] = [];
  readonly closed: number[] = [];
  readonly calls: Syscalls & FileCalls = {
    ...nodeSyscalls(),
    flock: () => this.flockResults.shift() ?? 0,
    close: (fd) => {
      this.closed.push(fd);
      return nodeSyscalls().close(fd);
    },
  };
}

describe("kernel/file_lock", () => {
  let directory = "";
  let lock = "";
  before(() => {
    directory = mkdtempSync(path.join(tmpdir(), "drawbridge-lock-"));
    lock = path.join(directory, "lock");
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  it("a free lock is taken without a pause, and its file is created", () => {
    const syscalls = new LockCalls();
    const waiting = new FakeWaiting();
    const release = acquireFileLock(syscalls.calls, lock, waiting);
    assert.deepEqual(waiting.pauses, []);
    assert.deepEqual(syscalls.closed, []);
    release();
    assert.equal(syscalls.closed.length, 1);
    assert.equal(statSync(lock).mode & 0o027, 0);
  });

  it("a lock that another process holds is tried again after short, growing pauses, also after a signal", () => {
    const syscalls = new LockCalls();
    syscalls.flockResults.push(...Array.from({ length: 20 }, (_, i) => (i === 3 ? -Errno.EINTR : -Errno.EAGAIN)));
    const waiting = new FakeWaiting();
    acquireFileLock(syscalls.calls, lock, waiting)();
    assert.equal(waiting.pauses.length, 20);
    assert.ok(waiting.pauses.every((pause) => pause > 0 && pause <= 4));
    assert.ok((waiting.pauses[0] ?? 1) <= 0.1);
  });

  it("after ten seconds the error says how to find the holder, and the file is closed", () => {
    const syscalls = new LockCalls();
    syscalls.flockResults.push(...Array.from({ length: 20_000 }, () => -Errno.EAGAIN));
    const waiting = new FakeWaiting();
    assert.throws(() => acquireFileLock(syscalls.calls, lock, waiting), {
      code: "ERR_LOCK_TIMEOUT",
      message: `${lock}: held by another process for 10 s; see who with \`fuser ${lock}\``,
    });
    const waited = waiting.pauses.reduce((sum, pause) => sum + pause, 0);
    assert.ok(waited >= 10_000 && waited < 10_010, `${waited} ms`);
    assert.equal(syscalls.closed.length, 1);
  });

  it("the error names a path that cannot be created", () => {
    const missing = path.join(directory, "missing", "lock");
    assert.throws(() => acquireFileLock(new LockCalls().calls, missing), {
      code: "ERR_STORE",
      message: /missing\/lock: .*ENOENT/,
    });
  });

  it("a path that is not a regular file is refused at once, without a wait, and closed", () => {
    const pipe = path.join(directory, "pipe");
    execFileSync("mkfifo", [pipe]);
    const link = path.join(directory, "link");
    symlinkSync(lock, link);
    for (const [place, closed] of [
      [pipe, 1],
      [link, 0],
    ] as const) {
      const syscalls = new LockCalls();
      assert.throws(() => acquireFileLock(syscalls.calls, place, new FakeWaiting()), {
        code: "ERR_STORE",
        message: `${place}: not a regular file; expected the lock, an empty file: remove it`,
      });
      assert.equal(syscalls.closed.length, closed);
    }
    const syscalls = new LockCalls();
    assert.throws(() => acquireFileLock(syscalls.calls, directory), { code: "ERR_STORE", message: /EISDIR/ });
  });

  it("any other errno of flock is thrown at once, and the file is closed", () => {
    const syscalls = new LockCalls();
    syscalls.flockResults.push(-Errno.EBADF);
    assert.throws(() => acquireFileLock(syscalls.calls, lock, new FakeWaiting()), {
      code: "ERR_SYSCALL",
      message: /^flock .*: EBADF/,
    });
    assert.equal(syscalls.closed.length, 1);
  });
});
