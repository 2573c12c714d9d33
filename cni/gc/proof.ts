import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { modificationTime } from "../../kernel/file.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { closeNamespace, openNamespace } from "../../kernel/network_namespace.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import { SyscallError } from "../../kernel/syscall/syscalls.ts";
import type { PluginMachine } from "../host.ts";
import { uptime } from "../status/failure_record.ts";

/**
 * Returns whether the node has a link of this name. @throws NetlinkError, SyscallError when the kernel does not answer
 */
export type HasLink = (name: string) => boolean;

/** Returns a function that asks the kernel for a link by its name, in the calling thread's namespace. */
export function linksOf(node: PluginMachine): HasLink {
  let socket: NetlinkSocket | undefined;
  return (name) => findLink((socket ??= openRouteSocket(node.syscalls)), { name }) !== undefined;
}

/**
 * Whether a pod's network namespace has ended: its record is of another boot, or its path is gone or leads to another
 * namespace by now and the host end of the pod's link is gone.
 *
 * The path does not prove anything by itself: in another mount namespace than that of the ADD it may not exist, or be
 * the empty file that the namespace is mounted on elsewhere. The kernel removes both ends of a link with the namespace
 * of one (default_device_exit_batch), which takes some time; a later GC finds an attachment whose link still existed.
 *
 * @throws NetlinkError, SyscallError when the kernel does not answer
 */
export function hasEnded(
  node: PluginMachine,
  { bootId, netns, hostInterface }: Pick<AttachmentRecord, "bootId" | "netns" | "hostInterface">,
  hasLink: HasLink,
): boolean {
  if (bootId !== node.bootId()) return true;
  return !leadsTo(node, netns) && !hasLink(hostInterface);
}

/** Whether the path still leads to the namespace; true also if the kernel does not say otherwise. */
function leadsTo(node: PluginMachine, { path, inode }: AttachmentRecord["netns"]): boolean {
  try {
    const namespace = openNamespace(node.syscalls, path);
    closeNamespace(node.syscalls, namespace);
    return String(namespace.inode) === inode;
  } catch (error) {
    if (error instanceof SyscallError) return !["ENOENT", "ENOTDIR", "ESRCH"].includes(error.errnoName);
    throw error;
  }
}

/** The seconds by which a file must be older than the boot: the clock may be set some seconds after it. */
const MARGIN = 10;

/** Returns a function that says whether a file was last written before this boot; false if the times are not known. */
export function isOlderThanBoot(node: PluginMachine, clock: () => number = Date.now): (path: string) => boolean {
  const seconds = uptime(node);
  if (seconds === undefined) return () => false;
  const boot = clock() / 1000 - seconds - MARGIN;
  return (path) => {
    const written = modificationTime(node.syscalls, path);
    return written !== undefined && written < boot;
  };
}
