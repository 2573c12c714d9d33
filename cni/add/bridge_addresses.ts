import { isName } from "../../ipam/owner.ts";
import type { Allocation } from "../../ipam/store.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import { isLocalRoute, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";
import type { Bridge, Wiring } from "../wiring/wiring.ts";
import { isReserved, routeTo } from "./foreign_addresses.ts";

/** Returns the addresses of a bridge. */
export function addressesOf(socket: NetlinkSocket, index: number): readonly Cidr[] {
  return socket.dump(dumpAddresses({ index })).flatMap((message) => parseInterfaceAddress(message)?.address ?? []);
}

/**
 * Makes sure that a pod does not get an address the bridge has: nothing from elsewhere would reach it. The reference
 * plugin refuses the same (ensureAddr of plugins/main/bridge).
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT (POD-17)
 */
export function refuseOwnAddress(name: string, own: readonly Cidr[], given: readonly Allocation[]): void {
  for (const one of own) {
    if (!given.some(({ address }) => address.address === one.address)) continue;
    const text = formatCidr(one);
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `bridge: ${JSON.stringify(name)} has the address ${text}, which the IPAM plugin has given to a pod: remove it (ip address del ${text} dev ${name}), or keep the plugin from giving it`,
    );
  }
}

/** A bridge, and the addresses that it has. */
interface Addressed {
  readonly bridge: Bridge;
  readonly own: readonly Cidr[];
}

/**
 * Returns the gateways of a pod that the bridge does not have yet. It must not take them from a pod, or from a host in the
 * network of another link.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT (POD-08)
 */
export function freshGateways(
  node: PluginMachine,
  socket: NetlinkSocket,
  { ipam, policyd }: Pick<BridgeConfiguration, "ipam" | "policyd">,
  { bridge, own }: Addressed,
  { bridgeAddresses }: Wiring,
): readonly Cidr[] {
  const fresh = bridgeAddresses.filter(({ address }) => !own.some((one) => one.address === address));
  for (const one of fresh) {
    const { address } = one;
    const holder =
      reservationOf(node, ipam.dataDir, address) ?? linkOf(socket, one, bridge.index, policyd !== undefined);
    if (holder === undefined) continue;
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `gateway: ${formatAddress(address)} cannot be the address of bridge ${bridge.name}: ${holder}; give the range another gateway, or another range`,
    );
  }
  return fresh;
}

function reservationOf(node: PluginMachine, dataDir: string, address: Address): string | undefined {
  const path = node.files
    .readDirectory(dataDir)
    .filter(isName)
    .map((network) => `${dataDir}/${network}/${formatAddress(address)}`)
    .find((one) => isReserved(node, one));
  return path === undefined ? undefined : `a pod has it (${path})`;
}

/**
 * Returns which link of the node has the network of a gateway. A link that has the gateway itself, as those of `ptp` do,
 * does not count: an ADD reports if packets for the pod go there.
 *
 * @param hasDaemon whether a bridge of another plugin, which usually has the same network, may: the daemon keeps the
 *   routes beside it (FOREIGN-03)
 */
function linkOf(
  socket: NetlinkSocket,
  { address, prefixLength }: Cidr,
  bridge: number,
  hasDaemon: boolean,
): string | undefined {
  const message = routeTo(socket, address);
  if (message === undefined || isLocalRoute(message)) return undefined;
  const { destination, gateway, outputInterface: index = bridge } = parseRouteOfAnyTable(message) ?? {};
  // A larger network, such as 10.0.0.0/8, may contain the range: the bridge's route is more specific.
  if (destination === undefined || destination.prefixLength < prefixLength) return undefined;
  const link = gateway === undefined && index !== bridge ? findLink(socket, { index }) : undefined;
  const isTaken = link?.hasLinkLayer === true && !(hasDaemon && link.kind === "bridge");
  return isTaken ? `link ${link.name} has a route to it (${formatCidr(destination)})` : undefined;
}
