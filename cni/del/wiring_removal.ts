import { delayDeviceOf } from "../../attachment/names_and_macs.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { hostCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { insideNamespace, type NetworkNamespace } from "../../kernel/network_namespace.ts";
import { deleteLink, getLink, parseLink } from "../../kernel/route/link.ts";
import { deleteNeighbour } from "../../kernel/route/neighbour.ts";
import { deleteRoute, linkRoute } from "../../kernel/route/route.ts";
import { findLink, openRouteSocket } from "../../kernel/route/socket.ts";
import { removeDelayDevice } from "../../kernel/traffic_control/delay_device.ts";
import type { PluginMachine } from "../host.ts";

/** The result of a request to remove a pod's link. */
export interface LinkRemoval {
  readonly socket: NetlinkSocket;
  readonly wasThere: boolean;
  /** Undefined if the bridge is gone. */
  readonly bridgeIndex: number | undefined;
}

/** @throws NetlinkError when the kernel does not remove the link */
export function removeLink(node: PluginMachine, hostInterface: string, bridge: string): LinkRemoval {
  const socket = openRouteSocket(node.syscalls);
  const [deleted, found] = socket.batch([deleteLink({ name: hostInterface }), getLink({ name: bridge })]);
  if (deleted?.error !== undefined && deleted.error.errnoName !== "ENODEV") throw deleted.error;
  const [message] = found?.messages ?? [];
  const bridgeIndex = message === undefined ? undefined : parseLink(message).index;
  return { socket, wasThere: deleted?.error === undefined, bridgeIndex };
}

/** Removes an attachment's delay device, if it exists. @throws NetlinkError when the kernel refuses */
export function forgetDelayDevice(node: PluginMachine, removal: LinkRemoval | undefined, owner: Owner): void {
  removeDelayDevice(removal?.socket ?? openRouteSocket(node.syscalls), delayDeviceOf(node.sha256, owner));
}

/**
 * Removes the interface of a pod that another plugin wired before a migration: such a pod has a reservation, but no
 * host end of our name and no record. Without a reservation the interface does not belong to this attachment and stays:
 * an ADD that was refused because of it is followed by a DEL, too.
 */
export function deletePodInterface(
  node: PluginMachine,
  home: NetworkNamespace,
  namespace: NetworkNamespace,
  ifname: string,
): void {
  const socket = insideNamespace(node.syscalls, home, namespace, () => openRouteSocket(node.syscalls));
  const [reply] = socket.batch([deleteLink({ name: ifname })]);
  if (reply?.error !== undefined && reply.error.errnoName !== "ENODEV") throw reply.error;
}

/**
 * Removes the neighbours: permanent entries stay on the bridge when the pod's link goes. ENOENT means there was none.
 */
export function forgetNeighbours(removal: LinkRemoval | undefined, addresses: readonly Address[]): void {
  if (removal?.bridgeIndex === undefined) return;
  const { socket, bridgeIndex } = removal;
  for (const { error } of socket.batch(addresses.map((address) => deleteNeighbour(bridgeIndex, address)))) {
    if (error !== undefined && error.errnoName !== "ENOENT") throw error;
  }
}

/** Removes the routes that addresses of an external IPAM plugin may have. ESRCH means there was none. */
export function forgetHostRoutes(node: PluginMachine, bridge: string, addresses: readonly Address[]): void {
  const socket = openRouteSocket(node.syscalls);
  const link = findLink(socket, { name: bridge });
  if (link === undefined) return;
  const routes = addresses.map((address) => deleteRoute(linkRoute(hostCidr(address), link.index)));
  for (const { error } of socket.batch(routes)) if (error !== undefined && error.errnoName !== "ESRCH") throw error;
}
