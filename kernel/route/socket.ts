import { DrawbridgeError } from "../error.ts";
import { NetlinkSocket, type Reply } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import { getLink, type Link, type LinkReference, parseLink } from "./link.ts";

const NETLINK_ROUTE = 0;

/**
 * Opens a socket for links, addresses, routes and neighbours of the calling thread's namespace.
 *
 * @throws SyscallError when the kernel refuses it
 */
export function openRouteSocket(syscalls: Syscalls): NetlinkSocket {
  return new NetlinkSocket(syscalls, NETLINK_ROUTE);
}

/**
 * Returns one link, or undefined when the namespace has none of that name or index.
 *
 * @throws NetlinkError when the kernel refuses for any other reason
 */
export function findLink(socket: Pick<NetlinkSocket, "batch">, link: LinkReference): Link | undefined {
  const [reply] = socket.batch([getLink(link)]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
  const message = reply?.messages[0];
  return message === undefined ? undefined : parseLink(message);
}

/**
 * Returns the link in an answer to {@link getLink}.
 *
 * @throws NetlinkError when the kernel refused the request, DrawbridgeError when the answer contains no link
 */
export function describedLink(reply: Reply | undefined): Link {
  const [message] = reply?.messages ?? [];
  if (message !== undefined) return parseLink(message);
  throw reply?.error ?? new DrawbridgeError("ERR_NETLINK", "netlink: a link was not described");
}
