import { type FileIdentity, identityOf } from "./file.ts";
import { type FileReadCalls, OpenFlag } from "./syscall/file_calls.ts";
import { check, SyscallError, type Syscalls } from "./syscall/syscalls.ts";

export const CLONE_NEWNET = 0x40000000;

/** An open network namespace. Device and inode identify it for as long as it is open. */
export interface NetworkNamespace extends FileIdentity {
  readonly path: string;
  readonly fd: number;
}

/**
 * Opens a namespace by its path (`/run/netns/NAME`, `/proc/PID/ns/net`). Close it with {@link closeNamespace}.
 *
 * Only entering it shows whether it is a network namespace: setns checks the type. O_NONBLOCK keeps a path to a pipe
 * from blocking.
 *
 * @throws SyscallError naming the path (ENOENT when it is gone)
 */
export function openNamespace(files: FileReadCalls, path: string): NetworkNamespace {
  const flags = OpenFlag.RDONLY | OpenFlag.NONBLOCK | OpenFlag.CLOEXEC;
  const fd = check(files.open(path, flags, 0), `open network namespace ${path}`);
  return { path, fd, ...identityOf(files, fd, path) };
}

/** Opens the calling thread's namespace. */
export function currentNamespace(files: FileReadCalls): NetworkNamespace {
  return openNamespace(files, "/proc/thread-self/ns/net");
}

/**
 * Moves the calling thread, and the threads that it starts from now on, permanently into a namespace.
 *
 * @throws SyscallError ERR_NAMESPACE when it cannot be entered (EINVAL: it is not a network namespace)
 */
export function enterNamespace(syscalls: Syscalls, namespace: Pick<NetworkNamespace, "path" | "fd">): void {
  const entered = syscalls.setns(namespace.fd, CLONE_NEWNET);
  if (entered < 0) throw new SyscallError(`enter network namespace ${namespace.path}`, -entered, "ERR_NAMESPACE");
}

export function closeNamespace(files: FileReadCalls, namespace: NetworkNamespace): void {
  files.close(namespace.fd);
}

/** Tells whether two handles are of the same namespace. */
export function isSameNamespace(a: FileIdentity, b: FileIdentity): boolean {
  return a.inode === b.inode && a.device === b.device;
}

/**
 * Runs `action` with the calling thread inside a namespace, and always returns to `home` afterwards.
 *
 * `action` must be synchronous: sockets and /proc/sys files that it opens belong to the namespace, and nothing else
 * runs on the thread meanwhile.
 *
 * @throws SyscallError ERR_NAMESPACE when the namespace cannot be entered (EINVAL: it is not a network namespace)
 */
export function insideNamespace<T>(
  syscalls: Syscalls,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
  action: () => T,
): T {
  enterNamespace(syscalls, namespace);
  try {
    return action();
  } finally {
    check(syscalls.setns(home.fd, CLONE_NEWNET), `return to network namespace ${home.path}`);
  }
}
