import { expectNetworkName, expectOwner, isInterfaceName, isName, type Owner } from "../../ipam/owner.ts";
import { storeError } from "../../ipam/file_system.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { modificationTime } from "../../kernel/file.ts";
import { lockFile, type Release } from "../../kernel/file_lock.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { OpenFlag } from "../../kernel/syscall/file_calls.ts";
import type { PluginMachine } from "../host.ts";
import { LONGEST_STDIN } from "../standard_input.ts";

/**
 * Returns the path of the file that says that an external IPAM plugin may hold addresses for an attachment:
 * `<runDir>/delegations/<network>/<id>:<ifname>`.
 *
 * The file is written before that plugin is executed for ADD, and removed after its DEL. It holds the configuration of
 * the ADD, so that a DEL finds the plugin even after the configuration has changed. The plugin inherits the lock on the
 * file. So the lock is held until the plugin has ended, even if this process is killed, and a DEL waits for an ADD that
 * is still running.
 */
export function pendingPath(runDir: string, network: string, owner: Owner): string {
  expectNetworkName(network);
  expectOwner(owner);
  return `${runDir}/delegations/${network}/${owner.containerId}:${owner.ifname}`;
}

/** The lock on such a file. */
export interface HeldLock {
  /** The descriptor that the executed plugin inherits. */
  readonly fd: number;
  release(): void;
}

/** The lock on the file of an ADD in progress. */
export interface PendingAdd extends HeldLock {
  /**
   * Removes the file because nothing was executed, or restores that of an earlier ADD, whose plugin may hold addresses.
   */
  forget(): void;
}

/** Records what an ADD is about to execute, and takes the lock. @throws DrawbridgeError ERR_LOCK_TIMEOUT, ERR_STORE */
export function writePending(node: PluginMachine, path: string, stdin: string): PendingAdd {
  node.files.makeDirectory(path.slice(0, path.lastIndexOf("/")), 0o700);
  let earlier: string | undefined;
  // An existing file is from a killed call without a DEL: its plugin may still run.
  if (!node.files.createFile(path, stdin)) {
    lockPending(node, path)?.release();
    earlier = readPending(node, path);
    node.files.unlink(path);
    if (!node.files.createFile(path, stdin)) {
      throw new DrawbridgeError("ERR_STORE", `cannot create ${path}: another call for this attachment is under way`);
    }
  }
  const lock = lockPending(node, path);
  if (lock === undefined) throw storeError("lock", path, Errno.ENOENT);
  const forget = (): void => {
    node.files.unlink(path);
    if (earlier !== undefined) node.files.createFile(path, earlier);
  };
  return { ...lock, forget };
}

/** Returns the configuration of the ADD; undefined if there was none, or it cannot be read. */
export function readPending(node: PluginMachine, path: string): string | undefined {
  const file = node.files.readSmallFile(path, LONGEST_STDIN);
  return file.kind === "text" ? file.text : undefined;
}

/** flock(2). */
const LOCK_UN = 8;

/** Longer than an IPAM plugin may run (cni/delegation/ipam_program.ts), in seconds. */
const LONGEST_ADD = 90;

/**
 * Takes the lock.
 *
 * A background process that an IPAM plugin left running inherits the lock. So `release` unlocks the file explicitly:
 * closing our descriptor would leave it locked as long as that process lives. After a killed ADD nothing unlocks the
 * file. Once every plugin must have ended, the lock is therefore ignored, since otherwise no DEL would ever succeed.
 *
 * @returns undefined if there is no such file, or the lock is ignored
 * @throws DrawbridgeError ERR_LOCK_TIMEOUT, ERR_STORE
 */
export function lockPending(node: PluginMachine, path: string): HeldLock | undefined {
  const { syscalls } = node;
  const fd = syscalls.open(path, OpenFlag.RDONLY | OpenFlag.CLOEXEC | OpenFlag.NOFOLLOW | OpenFlag.NONBLOCK, 0);
  if (fd === -Errno.ENOENT) return undefined;
  if (fd < 0) throw storeError("lock", path, -fd);
  let close: Release;
  try {
    close = lockFile(syscalls, fd, path);
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code === "ERR_LOCK_TIMEOUT" && isOld(node, path)) return undefined;
    throw error;
  }
  const release = (): void => {
    syscalls.flock(fd, LOCK_UN);
    close();
  };
  return { fd, release };
}

/**
 * Returns the attachments of a network for which an external IPAM plugin may hold addresses since an ADD that is over:
 * its DEL was refused, or never came.
 *
 * @throws DrawbridgeError ERR_STORE when the directory cannot be listed
 */
export function oldPendings(node: PluginMachine, runDir: string, network: string): readonly Owner[] {
  expectNetworkName(network);
  const directory = `${runDir}/delegations/${network}`;
  return node.files.readDirectory(directory).flatMap((fileName): readonly Owner[] => {
    const [, containerId = "", ifname = ""] = /^([^:]+):([^:]+)$/.exec(fileName) ?? [];
    const isOurs = isName(containerId) && isInterfaceName(ifname);
    return isOurs && isOld(node, `${directory}/${fileName}`) ? [{ containerId, ifname }] : [];
  });
}

/** Whether the ADD that wrote the file began longer ago than any plugin runs; false if that is not known. */
function isOld({ syscalls }: PluginMachine, path: string): boolean {
  const written = modificationTime(syscalls, path);
  return written !== undefined && Date.now() / 1000 - written > LONGEST_ADD;
}
