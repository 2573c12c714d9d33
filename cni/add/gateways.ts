import { isName } from "../../ipam/owner.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { isLocalRoute, lookUpMatchedRoute, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";
import type { Wiring } from "../wiring/wiring.ts";
import { type ClaimPlace, isReserved } from "./claim.ts";

/**
 * Returns the gateways of a pod that the bridge does not have yet. It must not take them from a pod, or from a host in the
 * network of another link.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT (POD-08)
 */
export function freshGateways(
  node: PluginMachine,
  { ipam, policyd }: BridgeConfiguration,
  { socket, bridge, own }: ClaimPlace,
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
  const message = socket.batch([lookUpMatchedRoute(address)])[0]?.messages[0];
  if (message === undefined || isLocalRoute(message)) return undefined;
  const { destination, gateway, outputInterface: index = bridge } = parseRouteOfAnyTable(message) ?? {};
  // A larger network, such as 10.0.0.0/8, may contain the range: the bridge's route is more specific.
  if (destination === undefined || destination.prefixLength < prefixLength) return undefined;
  const link = gateway === undefined && index !== bridge ? findLink(socket, { index }) : undefined;
  const isTaken = link?.hasLinkLayer === true && !(hasDaemon && link.kind === "bridge");
  return isTaken ? `link ${link.name} has a route to it (${formatCidr(destination)})` : undefined;
}
