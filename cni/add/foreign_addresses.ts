import { isName } from "../../ipam/owner.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, isHostCidr } from "../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { isLocalRoute, lookUpMatchedRoute, parseRoute } from "../../kernel/route/route.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";

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
