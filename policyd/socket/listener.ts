import { lstatSync, statSync } from "node:fs";
import type { Server } from "node:net";
import path from "node:path";
import process from "node:process";
import type { StoreFileSystem } from "../../ipam/file_system.ts";
import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { type FileCalls, OpenFlag } from "../../kernel/syscall/file_calls.ts";
import { check, type Syscalls } from "../../kernel/syscall/syscalls.ts";

const LOCK_EX = 2;
const LOCK_NB = 4;
/** Connections that may wait in the kernel to be accepted; 110 pods may be added at once. */
const BACKLOG = 511;

/** The parts of the machine that creating a socket needs. */
export type SocketMachine = Pick<Machine, "syscalls" | "files">;

/**
 * Makes a server listen on a unix socket that only root, or the user who runs the daemon, can connect to.
 *
 * Node cannot read the peer's credentials (SO_PEERCRED), so file permissions protect the socket: mode 0600 from the
 * moment it exists, in a directory that nobody else can write to. A lock beside it, which ends with its holder,
 * distinguishes a running daemon from a dead one; an old socket is removed only under this lock.
 *
 * @param whenLocked called before the socket is created, when no other daemon can be running
 * @returns functions that release the lock, and that check whether socket and lock still exist
 * @throws DrawbridgeError ERR_UNAVAILABLE when another daemon is running, ERR_CONFIGURATION for an unsafe place,
 * ERR_STORE
 */
export async function listenExclusively(
  server: Server,
  socketPath: string,
  machine: SocketMachine,
  whenLocked: () => void = () => {},
): Promise<Listening> {
  const directory = path.dirname(socketPath);
  machine.files.makeDirectory(directory, 0o700);
  expectPrivate(directory);
  const release = lock(lockPathOf(socketPath), socketPath, machine.syscalls);
  try {
    whenLocked();
    removeStale(socketPath, machine.files);
    await bind(server, socketPath);
  } catch (error) {
    release();
    throw error;
  }
  const paths = [socketPath, lockPathOf(socketPath)];
  const made = paths.map(identityAt);
  return { release, isWhole: () => paths.every((each, index) => identityAt(each) === made[index]) };
}

/** A socket that the daemon listens on. */
export interface Listening {
  readonly release: () => void;
  /** Whether the paths still lead to the socket and lock that were created. */
  readonly isWhole: () => boolean;
}

/** Returns the identity of the file at a path; undefined where there is none. */
function identityAt(file: string): string | undefined {
  const stats = lstatSync(file, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? undefined : `${stats.dev} ${stats.ino}`;
}

function lockPathOf(socketPath: string): string {
  return `${socketPath}.lock`;
}

/** Returns whether a daemon holds the lock of a socket; false where there is no lock file. @throws SyscallError */
export function isLocked(socketPath: string, syscalls: Syscalls & FileCalls): boolean {
  const fd = syscalls.open(lockPathOf(socketPath), OpenFlag.RDONLY | OpenFlag.NOFOLLOW | OpenFlag.CLOEXEC, 0);
  if (fd === -Errno.ENOENT) return false;
  check(fd, `open ${socketPath}.lock`);
  const result = syscalls.flock(fd, LOCK_EX | LOCK_NB);
  syscalls.close(fd);
  return result === -Errno.EAGAIN;
}

function expectPrivate(directory: string): void {
  const { mode, uid } = statSync(directory);
  const isOthers = uid !== 0 && uid !== process.geteuid?.();
  if (isOthers || (mode & 0o022) !== 0) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `socketPath: directory ${directory} has owner ${uid} and mode ${(mode & 0o7777).toString(8)}; expected one that only the daemon's user can write to, such as /run/drawbridge`,
    );
  }
}

function lock(lockPath: string, socketPath: string, syscalls: Syscalls & FileCalls): () => void {
  const flags = OpenFlag.RDONLY | OpenFlag.CREAT | OpenFlag.NOFOLLOW | OpenFlag.CLOEXEC;
  const fd = check(syscalls.open(lockPath, flags, 0o600), `open ${lockPath}`);
  const result = syscalls.flock(fd, LOCK_EX | LOCK_NB);
  if (result >= 0) {
    let isHeld = true;
    return () => {
      if (isHeld) syscalls.close(fd);
      isHeld = false;
    };
  }
  syscalls.close(fd);
  if (result !== -Errno.EAGAIN) check(result, `flock ${lockPath}`);
  throw new DrawbridgeError(
    "ERR_UNAVAILABLE",
    `another policyd is running on ${socketPath} (\`fuser ${lockPath}\` shows its process): stop it first, or give this one another --socket`,
  );
}

function removeStale(socketPath: string, files: StoreFileSystem): void {
  const stats = statSync(socketPath, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isSocket()) {
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `socketPath: ${socketPath} is not a socket; expected no file or an old socket: give another path or remove it`,
    );
  }
  files.unlink(socketPath);
}

function bind(server: Server, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      reject(new DrawbridgeError("ERR_UNAVAILABLE", `cannot listen on ${socketPath}: ${error.message}`));
    });
    // listen() binds before it returns, so the mode is 0600 from the start.
    const umask = process.umask(0o177);
    try {
      server.listen({ path: socketPath, backlog: BACKLOG }, resolve);
    } finally {
      process.umask(umask);
    }
  });
}
