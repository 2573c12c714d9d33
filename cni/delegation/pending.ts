import type { Owner } from "../../ipam/owner.ts";
import { expectNetworkName, expectOwner } from "../../ipam/owner.ts";
import { storeError } from "../../ipam/file_system.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { lockFile } from "../../kernel/file_lock.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { OpenFlag } from "../../kernel/syscall/file_calls.ts";
import type { Node } from "../node.ts";
import { LONGEST_STDIN } from "../standard_input.ts";

/**
 * Where it is written that an IPAM plugin of others may hold addresses for an attachment: `<runDir>/delegations/<network>/<id>:<ifname>`.
 *
 * The file is written before that plugin is executed for ADD, and removed after its DEL. It holds the configuration of the ADD, by
 * which a DEL finds the plugin also where the configuration has changed since. Its lock is inherited by what is executed, and so is
 * held until that has ended, also where this process was killed over it: a DEL waits for an ADD that goes on.
 */
export function pendingPath(runDir: string, network: string, owner: Owner): string {
  expectNetworkName(network);
  expectOwner(owner);
  return `${runDir}/delegations/${network}/${owner.containerId}:${owner.ifname}`;
}

/** The lock on such a file. */
export interface HeldLock {
  /** For what is executed to inherit. */
  readonly fd: number;
  release(): void;
}

/**
 * Writes down what an ADD is about to execute, and takes the lock.
 *
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT, ERR_STORE
 */
export function writePending(node: Node, path: string, stdin: string): HeldLock {
  node.files.makeDirectory(path.slice(0, path.lastIndexOf("/")), 0o700);
  // A file that exists was left by a call that was killed, and no DEL followed: its plugin may still run.
  if (!node.files.createFile(path, stdin)) {
    lockPending(node, path)?.release();
    node.files.unlink(path);
    if (!node.files.createFile(path, stdin)) {
      throw new DrawbridgeError("ERR_STORE", `cannot create ${path}: another call for this attachment is under way`);
    }
  }
  const lock = lockPending(node, path);
  if (lock !== undefined) return lock;
  throw storeError("lock", path, Errno.ENOENT);
}

/** The configuration of the ADD; undefined where there was none, or nothing can be read of it. */
export function readPending(node: Node, path: string): string | undefined {
  const file = node.files.readSmallFile(path, LONGEST_STDIN);
  return file.kind === "text" ? file.text : undefined;
}

/** Takes the lock. @returns undefined where there is no such file @throws DrawbridgeError ERR_LOCK_TIMEOUT, ERR_STORE */
export function lockPending(node: Node, path: string): HeldLock | undefined {
  const fd = node.syscalls.open(path, OpenFlag.RDONLY | OpenFlag.CLOEXEC | OpenFlag.NOFOLLOW | OpenFlag.NONBLOCK, 0);
  if (fd === -Errno.ENOENT) return undefined;
  if (fd < 0) throw storeError("lock", path, -fd);
  return { fd, release: lockFile(node.syscalls, fd, path) };
}
