import type { Address } from "../../kernel/ip/address.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { lookUpRoute, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import type { Way } from "./observed.ts";

/** Returns where the node sends packets for addresses. @throws DrawbridgeError when the kernel does not answer */
export function readWays(
  socket: Pick<NetlinkSocket, "batch">,
  addresses: readonly Address[],
): ReadonlyMap<Address, Way> {
  const replies = socket.batch(addresses.map((address) => lookUpRoute(address)));
  return new Map(addresses.map((address, position) => [address, wayOf(replies[position])]));
}

/**
 * Returns the kernel's answer as a way. It reports a route that discards packets as an error: EINVAL, EACCES or
 * EHOSTUNREACH (fib_props of net/ipv4/fib_semantics.c).
 */
function wayOf(reply: Reply | undefined): Way {
  const [message] = reply?.messages ?? [];
  if (message === undefined) return { error: reply?.error?.errnoName ?? "no answer" };
  const link = parseRouteOfAnyTable(message)?.outputInterface;
  return link === undefined ? { error: "not a way to another link" } : { link };
}
