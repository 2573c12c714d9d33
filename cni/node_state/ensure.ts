import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { LazyModules } from "../host.ts";
import type { StepMachine } from "./carry_out.ts";
import { type DesiredBridge, desiredBridges } from "./desired.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { lookUpRoute, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import type { Way } from "./observed.ts";

/**
 * Whether the bridge's settings are right and packets for the pods go to it, by one request for each. The ADD has just
 * made sure that the bridge is up and has its addresses.
 */
function isInOrder({ socket, sysctl }: StepMachine, { ports, settings }: DesiredBridge, bridgeIndex: number): boolean {
  for (const [key, value] of settings) if ((sysctl.read(key) ?? value) !== value) return false;
  const addresses = [...ports.values()].flatMap((port) => port.addresses);
  return [...readWays(socket, addresses).values()].every((way) => "link" in way && way.link === bridgeIndex);
}

/**
 * Makes sure, at the end of an ADD, that the pod's first packet gets through the node. It repairs what the bridge had
 * lost, in the same way as policyd, which may not be running.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT if the node still does not send packets for the pod to its bridge, with
 *   the way out
 */
export function ensureNodeState(
  machine: StepMachine,
  record: AttachmentRecord,
  bridgeIndex: number,
  { rare }: Pick<LazyModules, "rare">,
): void {
  for (const desired of desiredBridges([record])) {
    if (!isInOrder(machine, desired, bridgeIndex))
      rare().repairNodeState(machine, { ...desired, mtu: undefined }, record);
  }
}

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
