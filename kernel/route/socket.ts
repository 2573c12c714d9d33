import { withSocket, NetlinkSocket, type Reply } from "../netlink/socket.ts";
import { DrawbridgeError } from "../error.ts";
import type { Syscalls } from "../syscall/syscalls.ts";
import type { ReceivedMessage } from "../netlink/message.ts";
import {
  getLink,
  type Link,
  type LinkIdentity,
  linkIdentity,
  type LinkReference,
  OPERATIONAL_STATE_UP,
  operationalStateOf,
  parseLink,
} from "./link.ts";

const NETLINK_ROUTE = 0;

/**
 * Opens a socket for links, addresses, routes and neighbours of the calling thread's namespace.
 *
 * @throws SyscallError when the kernel refuses it
 */
export function openRouteSocket(syscalls: Syscalls): NetlinkSocket {
  return new NetlinkSocket(syscalls, NETLINK_ROUTE);
}

/** Runs an action with such a socket, and closes it afterwards. @throws SyscallError as {@link openRouteSocket} */
export function withRouteSocket<T>(syscalls: Syscalls, action: (socket: NetlinkSocket) => T): T {
  return withSocket(openRouteSocket(syscalls), action);
}

/**
 * Returns one link, or undefined when the namespace has none of that name or index.
 *
 * @throws NetlinkError when the kernel refuses for any other reason
 */
export function findLink(socket: Pick<NetlinkSocket, "batch">, link: LinkReference): Link | undefined {
  const message = describing(socket, link);
  return message === undefined ? undefined : parseLink(message);
}

/** Tells whether a link exists and carries packets. @throws NetlinkError as {@link findLink} */
export function isOperational(socket: Pick<NetlinkSocket, "batch">, link: LinkReference): boolean {
  const message = describing(socket, link);
  return message !== undefined && operationalStateOf(message) === OPERATIONAL_STATE_UP;
}

function describing(socket: Pick<NetlinkSocket, "batch">, link: LinkReference): ReceivedMessage | undefined {
  const [reply] = socket.batch([getLink(link)]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
  return reply?.messages[0];
}

/**
 * Returns the link in an answer to {@link getLink}.
 *
 * @throws NetlinkError when the kernel refused the request, DrawbridgeError when the answer contains no link
 */
export function describedLink(reply: Reply | undefined): LinkIdentity {
  const [message] = reply?.messages ?? [];
  if (message !== undefined) return linkIdentity(message);
  throw reply?.error ?? new DrawbridgeError("ERR_NETLINK", "netlink: a link was not described");
}
