import assert from "node:assert/strict";
import { LONGEST_WAIT_MILLISECONDS, waitForOtherCalls } from "../../../cni/one_at_a_time.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { carryOut } from "../../../kernel/resumable_work.ts";

describe("cni/one_at_a_time", () => {
  /** Returns the milliseconds that a call waits where the lock gives these answers. */
  function waited(answers: (tries: number) => number): number {
    let [now, tries] = [0, 0];
    const syscalls = { ...nodeSyscalls(), flock: () => answers(tries++) };
    const waiting = { now: () => now, pause: (milliseconds: number) => void (now += milliseconds) };
    carryOut(waitForOtherCalls({ syscalls }, { fd: 3 }, waiting), waiting);
    return now;
  }

  it("P19: a call waits for another call of the pod, and at most five seconds where the lock is never released", () => {
    assert.equal(
      waited(() => 0),
      0,
    );
    assert.equal(
      waited((tries) => (tries < 10 ? -Errno.EAGAIN : 0)),
      50,
    );
    assert.equal(
      waited(() => -Errno.EAGAIN),
      LONGEST_WAIT_MILLISECONDS,
    );
  });

  it("P19: a call does not wait where the kernel has no such lock", () => {
    assert.equal(
      waited(() => -Errno.EBADF),
      0,
    );
  });
});
