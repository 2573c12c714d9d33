import type { NetworkNamespace } from "../kernel/network_namespace.ts";
import { Errno } from "../kernel/syscall/errno.ts";
import type { Waiting, Work } from "../kernel/waiting.ts";
import { realWaiting } from "../kernel/waiting.ts";
import type { Node } from "./node.ts";

/** flock(2). */
const [LOCK_EX, LOCK_NB] = [2, 4];

const PAUSE_MILLISECONDS = 5;
/**
 * Longer than an ADD takes that waits for nobody. A program in the pod could hold the lock, since it can open its own namespace: it
 * delays a call by this.
 */
export const LONGEST_WAIT_MILLISECONDS = 5000;

/**
 * Waits until no other call works on a pod, and keeps others waiting until the namespace is closed (P19).
 *
 * A runtime makes one call for a container at a time, as the CNI specification demands. Two runtimes on a node do not know of each
 * other: of two ADDs the one that failed would take the record of the other's pod away, and what an ADD makes beside a DEL would stay.
 * After a while the call goes on all the same.
 */
export function* waitForOtherCalls(
  { syscalls }: Pick<Node, "syscalls">,
  { fd }: Pick<NetworkNamespace, "fd">,
  waiting: Pick<Waiting, "now"> = realWaiting,
): Work<void> {
  const end = waiting.now() + LONGEST_WAIT_MILLISECONDS;
  for (;;) {
    const result = syscalls.flock(fd, LOCK_EX | LOCK_NB);
    if ((result !== -Errno.EAGAIN && result !== -Errno.EINTR) || waiting.now() >= end) return;
    yield { fd: undefined, milliseconds: PAUSE_MILLISECONDS };
  }
}
