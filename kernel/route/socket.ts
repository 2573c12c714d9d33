import { NetlinkSocket } from "../netlink/socket.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { Link, LinkReference } from "./link.ts";
import { getLink, parseLink } from "./link.ts";

const NETLINK_ROUTE = 0;

/**
 * A socket for links, addresses, routes and neighbours of the namespace the calling thread is in.
 *
 * @throws SyscallError when the kernel refuses it
 */
export function openRouteSocket(syscalls: Syscalls): NetlinkSocket {
  return new NetlinkSocket(syscalls, NETLINK_ROUTE);
}

/**
 * One link, or undefined when the namespace has none of that name or index.
 *
 * @throws NetlinkError when the kernel refuses for any other reason
 */
export function findLink(socket: NetlinkSocket, link: LinkReference): Link | undefined {
  const [reply] = socket.batch([getLink(link)]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
  const message = reply?.messages[0];
  return message === undefined ? undefined : parseLink(message);
}
