import { closeSync, openSync } from "node:fs";
import { CLONE_NEWNET, type NetworkNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { check } from "../../kernel/syscall/syscalls.ts";
import type { LabCalls } from "./libc.ts";

const MS_BIND = 0x1000;
const MNT_DETACH = 2;

/**
 * Makes a network namespace and keeps it alive by a bind mount on a new file.
 *
 * unshare and setns change only the calling thread. On Node's main thread that is safe here, because nothing else can
 * run on it before the `finally` has brought it back: JavaScript, timers and I/O callbacks wait until this function
 * returns, and the calls in between are synchronous. Existing threads (V8's workers, libuv's pool) keep their
 * namespace; a new one would inherit this thread's, but libuv starts its pool only for an asynchronous request, and
 * there is none in between. If the thread cannot return, the process must not continue in the wrong namespace: this
 * throws.
 *
 * @throws SyscallError when the kernel refuses; nothing is left then
 */
export function pinNewNamespace(calls: LabCalls, home: NetworkNamespace, file: string): NetworkNamespace {
  closeSync(openSync(file, "wx", 0o444));
  try {
    check(calls.unshare(CLONE_NEWNET), "unshare the network namespace");
    try {
      check(calls.mount("/proc/thread-self/ns/net", file, "none", MS_BIND), `mount on ${file}`);
    } finally {
      check(calls.setns(home.fd, CLONE_NEWNET), "return to the lab's own network namespace");
    }
    return openNamespace(calls, file);
  } catch (error) {
    unpin(calls, file);
    throw error;
  }
}

/**
 * Removes the mount and the file of a namespace. The kernel removes the namespace's links as soon as no process is in
 * it.
 *
 * @throws SyscallError when it cannot be unmounted
 */
export function unpin(calls: LabCalls, file: string): void {
  const result = calls.umount2(file, MNT_DETACH);
  // EINVAL: not a mount point, since the process died before mounting. ENOENT: another sweep was faster.
  if (result !== -Errno.EINVAL && result !== -Errno.ENOENT) check(result, `unmount ${file}`);
  const removed = calls.unlink(file);
  if (removed !== -Errno.ENOENT) check(removed, `remove ${file}`);
}
