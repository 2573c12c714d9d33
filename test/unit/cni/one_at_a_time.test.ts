import assert from "node:assert/strict";
import { LONGEST_WAIT_MILLISECONDS, waitForOtherCalls } from "../../../cni/pod_lock.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";

describe("cni/one_at_a_time", () => {
  it("P19: a call waits for another call of the pod for at most five seconds, and goes on where there is no lock", () => {
    for (const answer of [0, -Errno.EAGAIN, -Errno.EBADF]) {
      const asked: number[] = [];
      const lock = (fd: number, milliseconds: number): number => {
        asked.push(fd, milliseconds);
        return answer;
      };
      waitForOtherCalls({ syscalls: { ...nodeSyscalls(), lock } }, { fd: 3 });
      assert.deepEqual(asked, [3, LONGEST_WAIT_MILLISECONDS]);
    }
    assert.equal(LONGEST_WAIT_MILLISECONDS, 5000);
  });
});
