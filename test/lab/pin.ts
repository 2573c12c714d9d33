import { closeSync, constants, existsSync, mkdirSync, openSync, readdirSync } from "node:fs";
import path from "node:path";
import { CLONE_NEWNET, type NetworkNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { check } from "../../kernel/syscall/syscalls.ts";
import type { LabCalls } from "./libc.ts";

/** The directory in which `ip netns` looks for namespaces, so that people can enter those of the lab with it. */
export const NAMESPACE_DIRECTORY = "/run/netns";

const MS_BIND = 0x1000;
const MS_REC = 0x4000;
const MS_SHARED = 0x10_0000;
const MNT_DETACH = 2;
const LOCK_EX = 2;

/**
 * Makes a network namespace and keeps it alive by a bind mount on `/run/netns/<name>`.
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
export function pinNewNamespace(calls: LabCalls, home: NetworkNamespace, name: string): NetworkNamespace {
  shareDirectory(calls);
  const file = path.join(NAMESPACE_DIRECTORY, name);
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
    unpin(calls, name);
    throw error;
  }
}

/**
 * Makes the directory a separate shared mount, as `ip netns add` does (iproute2, ip/ipnetns.c). Otherwise an `ip netns
 * add` would mount it over itself with copies of all mounts, and the lab could not remove its files any more.
 *
 * The lock on the directory is the one that `ip netns add` takes.
 */
function shareDirectory(calls: LabCalls): void {
  mkdirSync(NAMESPACE_DIRECTORY, { recursive: true });
  const directory = openSync(NAMESPACE_DIRECTORY, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    check(calls.flock(directory, LOCK_EX), `lock ${NAMESPACE_DIRECTORY}`);
    const share = (): number => calls.mount("none", NAMESPACE_DIRECTORY, "none", MS_SHARED | MS_REC);
    const shared = share();
    if (shared !== -Errno.EINVAL) return void check(shared, `share ${NAMESPACE_DIRECTORY}`);
    check(
      calls.mount(NAMESPACE_DIRECTORY, NAMESPACE_DIRECTORY, "none", MS_BIND | MS_REC),
      `mount ${NAMESPACE_DIRECTORY}`,
    );
    check(share(), `share ${NAMESPACE_DIRECTORY}`);
  } finally {
    closeSync(directory);
  }
}

/**
 * Removes the mount and the file of a namespace. The file stays while it hides another mount. The kernel removes the
 * namespace's links as soon as no process is in it.
 *
 * @throws SyscallError when it cannot be unmounted
 */
export function unpin(calls: LabCalls, name: string): void {
  const file = path.join(NAMESPACE_DIRECTORY, name);
  if (!existsSync(file)) return;
  const result = calls.umount2(file, MNT_DETACH);
  // EINVAL: not a mount point, since the process died before mounting. ENOENT: another sweep was faster.
  if (result !== -Errno.EINVAL && result !== -Errno.ENOENT) check(result, `unmount ${file}`);
  const removed = calls.unlink(file);
  // EBUSY: an `ip netns add` has mounted the directory over itself with copies of all mounts in it. The original mounts
  // are hidden and go only with that mount; so does the file.
  if (removed !== -Errno.ENOENT && removed !== -Errno.EBUSY) check(removed, `remove ${file}`);
}

/** Returns the names of all pinned namespaces, including those of other programs. */
export function pinnedNames(): readonly string[] {
  return existsSync(NAMESPACE_DIRECTORY) ? readdirSync(NAMESPACE_DIRECTORY) : [];
}
