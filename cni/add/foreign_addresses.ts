import { isName } from "../../ipam/owner.ts";
import { type Address, bitsOf, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { lookUpMatchedRoute, parseRoute } from "../../kernel/route/route.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../kernel/route/interface_address.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { PluginMachine } from "../host.ts";

/** Larger than any reservation of host-local. The content does not matter. */
const LARGEST_RESERVATION = 1024;

/**
 * Returns a function that says whether a pod of another plugin on this node has an address, or the bridge, as the
 * gateway of an earlier range that pods still use, so that our pods must not get it (FOREIGN-04, POD-17).
 *
 * After a change of plugins, the pods of the previous one stay until they are recreated, and their addresses come from
 * the node's pod CIDR, as ours do. Two sources name them: the reservations of host-local's other networks since the boot, which
 * no pod outlives, and a route
 * to the single address by another link than our bridge, as the plugin `ptp` and kindnet make. A network of ours that
 * has pods on this node does not count.
 *
 * @param bridge our bridge's index
 */
export function foreignAddresses(
  node: PluginMachine,
  socket: NetlinkSocket,
  configuration: Pick<BridgeConfiguration, "name" | "runDir" | "ipam">,
  bridge: number,
): (address: Address) => boolean {
  const { name, runDir, ipam } = configuration;
  const beside = node.files.readDirectory(ipam.dataDir).filter((other) => other !== name && isName(other));
  const ours = beside.length === 0 ? [] : node.deleting().recordedNetworks(runDir, node.files);
  const stores = beside.filter((other) => !ours.includes(other)).map((other) => `${ipam.dataDir}/${other}`);
  const own = socket.dump(dumpAddresses({ index: bridge })).map(parseInterfaceAddress);
  return (address) => {
    if (own.some((one) => one?.address.address === address)) return true;
    const text = formatAddress(address);
    const isReserved = (store: string): boolean => {
      const path = `${store}/${text}`;
      return (
        node.files.readSmallFile(path, LARGEST_RESERVATION).kind === "text" && !node.rare().isOlderThanBoot(node)(path)
      );
    };
    return stores.some(isReserved) || hasRouteElsewhere(socket, address, bridge);
  };
}

/** Whether the kernel's route to an address leads to this address only, and by another link than the bridge. */
function hasRouteElsewhere(socket: NetlinkSocket, address: Address, bridge: number): boolean {
  // Without any route, the kernel answers with an error.
  const [reply] = socket.batch([lookUpMatchedRoute(address)]);
  const message = reply?.error === undefined ? reply?.messages[0] : undefined;
  const route = message === undefined ? undefined : parseRoute(message);
  if (route?.destination?.prefixLength !== bitsOf(familyOf(address))) return false;
  return route.outputInterface !== bridge;
}
