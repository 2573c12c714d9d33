import { DrawbridgeError } from "./error.ts";
import { isRegularFile } from "./file.ts";
import { Errno, errnoName, errnoText } from "./syscall/errno.ts";
import { type FileReadCalls, OpenFlag } from "./syscall/file_calls.ts";
import { check, type Syscalls } from "./syscall/syscalls.ts";
import { realWaiting, type Waiting } from "./resumable_work.ts";

const LOCK_EX = 2;
const LOCK_NB = 4;

/** The longest wait for a lock. Holders hold it for well under a millisecond, so after ten seconds one is stuck. */
const TIMEOUT_MILLISECONDS = 10_000;
const LONGEST_PAUSE_MILLISECONDS = 4;

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
export function acquireFileLock(
  syscalls: Syscalls & FileReadCalls,
  path: string,
  waiting: Waiting = realWaiting,
): Release {
  return lockFile(syscalls, openLock(syscalls, path), path, waiting);
}

/**
 * Locks an existing directory like {@link acquireFileLock}, for state that has no file of its own to lock.
 *
 * @throws DrawbridgeError as {@link acquireFileLock}, ERR_STORE when it cannot be opened
 */
export function acquireDirectoryLock(
  syscalls: Syscalls & FileReadCalls,
  path: string,
  waiting: Waiting = realWaiting,
): Release {
  const fd = syscalls.open(path, OpenFlag.RDONLY | OpenFlag.DIRECTORY | OpenFlag.CLOEXEC, 0);
  if (fd < 0) throw notOpened(path, fd);
  return lockFile(syscalls, fd, path, waiting);
}

/**
 * Locks an open file like {@link acquireFileLock}. The file is closed with the lock, or when locking fails.
 *
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT, SyscallError
 */
export function lockFile(syscalls: Syscalls, fd: number, path: string, waiting: Waiting = realWaiting): Release {
  const deadline = waiting.now() + TIMEOUT_MILLISECONDS;
  for (let pause = 0.1; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MILLISECONDS)) {
    const result = syscalls.flock(fd, LOCK_EX | LOCK_NB);
    if (result === 0) return () => void syscalls.close(fd);
    if (result !== -Errno.EAGAIN && result !== -Errno.EINTR) {
      syscalls.close(fd);
      check(result, `flock ${path}`);
    }
    if (waiting.now() >= deadline) {
      syscalls.close(fd);
      throw new DrawbridgeError(
        "ERR_LOCK_TIMEOUT",
        `${path}: held by another process for ${TIMEOUT_MILLISECONDS / 1000} s; see who with \`fuser ${path}\``,
      );
    }
    waiting.pause(pause * (0.5 + Math.random() / 2));
  }
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
