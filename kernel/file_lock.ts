import { DrawbridgeError } from "./error.ts";
import { isRegularFile } from "./file.ts";
import { Errno, errnoName, errnoText } from "./syscall/errno.ts";
import { type FileReadCalls, OpenFlag } from "./syscall/file_calls.ts";
import { check, type Syscalls } from "./syscall/syscalls.ts";

/** The longest wait for a lock in milliseconds. Holders hold it for well under a millisecond, so after ten seconds one is stuck. */
const LONGEST_WAIT = 10_000;

export type Release = () => void;

/**
 * Takes flock(2) LOCK_EX on a file, created as host-local does (mode 0750), and so excludes the Go plugin, too.
 *
 * The kernel releases the lock when its holder dies, so a killed plugin blocks nobody.
 *
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT when another process holds it for ten seconds
 * @throws DrawbridgeError ERR_STORE when the file cannot be created or is not a regular one, SyscallError when it
 *   cannot be locked
 */
export function acquireFileLock(syscalls: Syscalls & FileReadCalls, path: string): Release {
  return lockFile(syscalls, openLock(syscalls, path), path);
}

/**
 * Runs an action with an existing directory locked like {@link acquireFileLock}, for state without a file to lock.
 *
 * @throws DrawbridgeError as {@link acquireFileLock}, ERR_STORE when it cannot be opened
 */
export function withDirectoryLock<T>(
  syscalls: Syscalls & FileReadCalls,
  path: string,
  action: () => T,
  milliseconds: number = LONGEST_WAIT,
): T {
  const fd = syscalls.open(path, OpenFlag.RDONLY | OpenFlag.DIRECTORY | OpenFlag.CLOEXEC, 0);
  if (fd < 0) throw notOpened(path, fd);
  const release = lockFile(syscalls, fd, path, milliseconds);
  try {
    return action();
  } finally {
    release();
  }
}

/**
 * Locks an open file like {@link acquireFileLock}. The file is closed with the lock, or when locking fails.
 *
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT, SyscallError
 */
export function lockFile(syscalls: Syscalls, fd: number, path: string, milliseconds: number = LONGEST_WAIT): Release {
  const result = syscalls.lock(fd, milliseconds);
  if (result === 0) return () => void syscalls.close(fd);
  syscalls.close(fd);
  if (result !== -Errno.EAGAIN) check(result, `flock ${path}`);
  throw new DrawbridgeError(
    "ERR_LOCK_TIMEOUT",
    `${path}: held by another process for ${milliseconds / 1000} s; see who with \`fuser ${path}\``,
  );
}

/** Returns the file's descriptor. Opening a pipe could wait forever, and a link could lead anywhere. */
function openLock(files: FileReadCalls, path: string): number {
  const flags = OpenFlag.RDONLY | OpenFlag.CREAT | OpenFlag.CLOEXEC | OpenFlag.NONBLOCK | OpenFlag.NOFOLLOW;
  const fd = files.open(path, flags, 0o750);
  if (fd === -Errno.ELOOP) throw notAFile(path);
  if (fd < 0) throw notOpened(path, fd);
  if (isRegularFile(files, fd)) return fd;
  files.close(fd);
  throw notAFile(path);
}

function notOpened(path: string, result: number): DrawbridgeError {
  return new DrawbridgeError("ERR_STORE", `cannot open ${path}: ${errnoText(-result)} (${errnoName(-result)})`);
}

function notAFile(path: string): DrawbridgeError {
  return new DrawbridgeError("ERR_STORE", `${path}: not a regular file; expected the lock, an empty file: remove it`);
}
