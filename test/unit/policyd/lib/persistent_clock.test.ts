import assert from "node:assert/strict";
import { storeError } from "../../../../ipam/file_system.ts";
import { NetlinkError } from "../../../../kernel/netlink/error.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";
import { persistentClock } from "../../../../policyd/lib/clock.ts";
import { FakeClock } from "../../../support/fake_clock.ts";

describe("lib/persistent_clock", () => {
  it("DAEMON-10: an action that finds no descriptor, memory or buffer runs again until it succeeds or is cancelled, and another failure is passed on", () => {
    const clock = new FakeClock();
    const seen: string[] = [];
    const persistent = persistentClock(clock, ({ message }) => seen.push(message));
    const failures: Error[] = [
      new SyscallError("open a", Errno.EMFILE),
      new SyscallError("open b", Errno.ENFILE),
      new NetlinkError("list", Errno.ENOBUFS),
      storeError("read", "c", Errno.EMFILE),
      Object.assign(new Error("from Node"), { code: "ENOMEM" }),
    ];
    const many = failures.length;
    let done = 0;
    persistent.after(10, () => {
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      done++;
    });
    clock.pass(10 + many * 1000);
    assert.deepEqual([seen.length, done, clock.pending], [many, 1, 0]);
    const cancel = persistent.after(0, () => {
      throw new SyscallError("open", Errno.EMFILE);
    });
    clock.pass(0);
    cancel();
    assert.equal(clock.pending, 0);
    persistent.after(0, () => {
      throw new SyscallError("open", Errno.ENOENT);
    });
    assert.throws(() => clock.pass(0), /ENOENT/);
  });
});
