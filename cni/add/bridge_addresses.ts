import { isName } from "../../ipam/owner.ts";
import type { Allocation } from "../../ipam/store.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr, isHostCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { getNeighbour, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { isLocalRoute, lookUpMatchedRoute, parseRoute, parseRouteOfAnyTable } from "../../kernel/route/route.ts";
import { findLink } from "../../kernel/route/socket.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";
import type { Bridge, Wiring } from "../wiring/wiring.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";

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

/** Larger than any reservation of host-local. The content does not matter. */
const LARGEST_RESERVATION = 1024;

/**
 * Returns a function that says whether a pod of another plugin on this node has an address, or the bridge, as the
 * gateway of an earlier range that pods still use, so that our pods must not get it (FOREIGN-04, POD-17).
 *
 * After a change of plugins, the pods of the previous one stay until they are recreated, and their addresses come from
 * the node's pod CIDR, as ours do. Two sources name them: the reservations of host-local's other networks since the
 * boot, which no pod outlives, and a route to the single address by another link than our bridge, as the plugin `ptp`
 * and kindnet make, or to the node itself. A network of ours that has pods on this node does not count.
 *
 * @param bridge our bridge's index, and the addresses that it has
 */
export function foreignAddresses(
  node: PluginMachine,
  socket: NetlinkSocket,
  configuration: Pick<BridgeConfiguration, "name" | "runDir" | "ipam">,
  bridge: { readonly index: number; readonly addresses: readonly Cidr[] },
): (address: Address) => boolean {
  const { name, runDir, ipam } = configuration;
  const beside = node.files.readDirectory(ipam.dataDir).filter((other) => other !== name && isName(other));
  const ours = beside.length === 0 ? [] : node.deleting().recordedNetworks(runDir, node.files);
  const stores = beside.filter((other) => !ours.includes(other)).map((other) => `${ipam.dataDir}/${other}`);
  return (address) => {
    if (bridge.addresses.some((own) => own.address === address)) return true;
    const text = formatAddress(address);
    const isHeld = stores.some((store) => isReserved(node, `${store}/${text}`));
    return isHeld || hasRouteElsewhere(socket, address, bridge.index);
  };
}

/**
 * Returns a function that says whether a pod on the bridge has an address that the network's store does not reserve: it
 * came from another network, another IPAM plugin or another store. The pod's neighbour entry on the bridge would become
 * the next pod's. Records are read only for an address that has such an entry: one without a pod is left over.
 */
export function addressesOnBridge(
  node: PluginMachine,
  socket: NetlinkSocket,
  { name, runDir, ipam }: Pick<BridgeConfiguration, "name" | "runDir" | "ipam">,
  bridge: number,
): (address: Address) => boolean {
  let recorded: ReadonlySet<Address> | undefined;
  return (address) => {
    const message = socket.batch([getNeighbour(bridge, address)])[0]?.messages[0];
    if (message === undefined || parseNeighbour(message)?.permanent !== true) return false;
    if (isReserved(node, `${ipam.dataDir}/${name}/${formatAddress(address)}`)) return false;
    recorded ??= node.rare().recordedAddresses(node, runDir);
    return recorded.has(address);
  };
}

/** Whether a file reserves an address since the boot. */
export function isReserved(node: PluginMachine, path: string): boolean {
  return (
    node.files.readSmallFile(path, LARGEST_RESERVATION).kind === "text" && !node.rare().isOlderThanBoot(node)(path)
  );
}

/** Whether the kernel's route to an address leads to this address only, and not by the bridge. */
function hasRouteElsewhere(socket: NetlinkSocket, address: Address, bridge: number): boolean {
  const message = routeTo(socket, address);
  if (message === undefined) return false;
  if (isLocalRoute(message)) return true;
  const route = parseRoute(message);
  return route?.destination !== undefined && isHostCidr(route.destination) && route.outputInterface !== bridge;
}

/** Returns the message about the kernel's route to an address; undefined where the kernel has none, an error. */
export function routeTo(socket: NetlinkSocket, address: Address): ReceivedMessage | undefined {
  return socket.batch([lookUpMatchedRoute(address)])[0]?.messages[0];
}
