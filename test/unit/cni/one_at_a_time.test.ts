import assert from "node:assert/strict";
import { LONGEST_WAIT_MILLISECONDS, waitForOtherCalls } from "../../../cni/one_at_a_time.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/node.ts";
import { carryOut } from "../../../kernel/waiting.ts";

describe("cni/one_at_a_time", () => {
  /** Milliseconds that a call waits where the lock answers so. */
  function waited(answers: (tries: number) => number): number {
    let [now, tries] = [0, 0];
    const syscalls = { ...nodeSyscalls(), flock: () => answers(tries++) };
    const waiting = { now: () => now, pause: (milliseconds: number) => void (now += milliseconds) };
    carryOut(waitForOtherCalls({ syscalls }, { fd: 3 }, waiting), waiting);
    return now;
  }

  it("P19: waits for a call that works on the pod, and where nobody gives the lock back no longer than five seconds", () => {
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

  it("P19: does not wait where the kernel has no such lock", () => {
    assert.equal(
      waited(() => -Errno.EBADF),
      0,
    );
  });
});
