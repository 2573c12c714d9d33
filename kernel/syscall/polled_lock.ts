import type { Waiting } from "../waiting.ts";
import { Errno } from "./errno.ts";

/** flock(2). */
const LOCK_EX = 2;
const LOCK_NB = 4;

const FIRST_PAUSE_MILLISECONDS = 0.1;
const LONGEST_PAUSE_MILLISECONDS = 4;

/**
 * Takes LOCK_EX by trying again and again, and returns as `lock` of syscalls.ts. In Node nothing could interrupt a call
 * that waits in the kernel; the plugin's executable waits there (cni/native/calls.c).
 */
export function polledLock(
  flock: (fd: number, operation: number) => number,
  fd: number,
  milliseconds: number,
  waiting: Waiting,
): number {
  const deadline = waiting.now() + milliseconds;
  for (let pause = FIRST_PAUSE_MILLISECONDS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MILLISECONDS)) {
    const result = flock(fd, LOCK_EX | LOCK_NB);
    if (result !== -Errno.EAGAIN && result !== -Errno.EINTR) return result;
    if (waiting.now() >= deadline) return -Errno.EAGAIN;
    waiting.pause(pause * (0.5 + Math.random() / 2));
  }
}
