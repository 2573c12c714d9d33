import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { modificationTime } from "../../kernel/file.ts";
import { closeNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { Node } from "../node.ts";
import { uptime } from "../status/failure_record.ts";

/**
 * Whether a pod's network namespace has ended: its record is of another boot, or the path leads nowhere or to another
 * namespace by now. Where the kernel does not answer, it has not.
 */
export function hasEnded(node: Node, { bootId, netns }: Pick<AttachmentRecord, "bootId" | "netns">): boolean {
  if (bootId !== node.bootId()) return true;
  try {
    const namespace = openNamespace(node.syscalls, netns.path);
    closeNamespace(node.syscalls, namespace);
    return String(namespace.inode) !== netns.inode;
  } catch (error) {
    if (error instanceof SyscallError) return ["ENOENT", "ENOTDIR", "ESRCH"].includes(error.errnoName);
    throw error;
  }
}

/** Seconds by which a file has to be older than the boot: clocks are set by some seconds after it. */
const MARGIN = 10;

/** Tells whether a file was last written before this boot; false where the times are not known. */
export function isOlderThanBoot(node: Node, clock: () => number = Date.now): (path: string) => boolean {
  const seconds = uptime(node);
  if (seconds === undefined) return () => false;
  const boot = clock() / 1000 - seconds - MARGIN;
  return (path) => {
    const written = modificationTime(node.syscalls, path);
    return written !== undefined && written < boot;
  };
}
