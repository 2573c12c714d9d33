import { isName } from "../../ipam/owner.ts";
import type { AddressStore, Allocation } from "../../ipam/store.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, formatCidr, isHostCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import type { NetworkNamespace } from "../../kernel/network_namespace.ts";
import { getNeighbour, parseNeighbour } from "../../kernel/route/neighbour.ts";
import { isLocalRoute, lookUpMatchedRoute, parseRoute } from "../../kernel/route/route.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { Attachment } from "../environment.ts";
import type { PluginMachine } from "../host.ts";
import type { Bridge } from "../wiring/wiring.ts";

/** The place where a pod gets its addresses. */
export interface ClaimPlace {
  readonly store: AddressStore;
  /** In the node's namespace. */
  readonly socket: NetlinkSocket;
  readonly home: NetworkNamespace;
  readonly bridge: Bridge;
  /** The addresses that the bridge has. */
  readonly own: readonly Cidr[];
}

/**
 * Whether others have an address.
 *
 * @param found the kernel's answer about the address: its route or its neighbour entry
 */
type IsTaken = (address: Address, found: Reply | undefined) => boolean;

/**
 * Claims the addresses of a pod: those that an external IPAM plugin has given, or free ones of the network. When another
 * pod holds one of them and gives way, the claim is repeated.
 *
 * @throws DrawbridgeError ERR_ADDRESS_UNAVAILABLE when another pod has an address, and what {@link AddressStore.allocate}
 *   throws; ERR_FOREIGN_OBJECT when the bridge has an address that was given
 */
export function claimAddresses(
  node: PluginMachine,
  configuration: BridgeConfiguration,
  attachment: Attachment,
  given: readonly Allocation[] | undefined,
  place: ClaimPlace,
): readonly Allocation[] {
  refuseOwnAddress(place, given ?? []);
  const { store, socket, bridge, home } = place;
  const { ranges, requested } = configuration.ipam;
  const wanted = given?.map(({ address }) => address.address) ?? requested;
  const claim = (): readonly Allocation[] => {
    const isOnBridge = addressesOnBridge(node, configuration);
    if (given === undefined) {
      const isForeign = foreignAddresses(node, configuration, place);
      return store.allocate(ranges, attachment, requested, "caller", (one) => {
        const [route, neighbour] = socket.batch([lookUpMatchedRoute(one), getNeighbour(bridge.index, one)]);
        return isForeign(one, route) || isOnBridge(one, neighbour);
      });
    }
    const neighbours = socket.batch(wanted.map((one) => getNeighbour(bridge.index, one)));
    const taken = wanted.find((one, index) => isOnBridge(one, neighbours[index]));
    if (taken !== undefined)
      throw new DrawbridgeError(
        "ERR_ADDRESS_UNAVAILABLE",
        `${formatAddress(taken)}: a pod on bridge ${bridge.name} has it; expected an address that no other pod of this node has`,
      );
    // Also reserves an external plugin's addresses: no two pods share one, and DEL finds them without a record.
    store.reserve(wanted, attachment);
    return given;
  };
  try {
    return claim();
  } catch (error) {
    const isHeld = error instanceof DrawbridgeError && error.code === "ERR_ADDRESS_UNAVAILABLE";
    if (!isHeld || !node.rare().detachHolders(node, configuration, wanted, attachment, home)) throw error;
    return claim();
  }
}

/**
 * Makes sure that a pod does not get an address the bridge has: nothing from elsewhere would reach it. The reference
 * plugin refuses the same (ensureAddr of plugins/main/bridge).
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT (POD-17)
 */
function refuseOwnAddress({ bridge: { name }, own }: ClaimPlace, given: readonly Allocation[]): void {
  for (const one of own) {
    if (!given.some(({ address }) => address.address === one.address)) continue;
    const text = formatCidr(one);
    throw new DrawbridgeError(
      "ERR_FOREIGN_OBJECT",
      `bridge: ${JSON.stringify(name)} has the address ${text}, which the IPAM plugin has given to a pod: remove it (ip address del ${text} dev ${name}), or keep the plugin from giving it`,
    );
  }
}

/**
 * Returns a function that says whether a pod of another plugin on this node has an address, or the bridge, as the
 * gateway of an earlier range that pods still use, so that our pods must not get it (FOREIGN-04, POD-17).
 *
 * After a change of plugins, the pods of the previous one stay until they are recreated, and their addresses come from
 * the node's pod CIDR, as ours do. Two sources name them: the reservations of host-local's other networks since the
 * boot, which no pod outlives, and a route to the single address by another link than our bridge, as the plugin `ptp`
 * and kindnet make, or to the node itself. A network of ours that has pods on this node does not count.
 */
function foreignAddresses(
  node: PluginMachine,
  { name, runDir, ipam }: BridgeConfiguration,
  { bridge, own }: ClaimPlace,
): IsTaken {
  const beside = node.files.readDirectory(ipam.dataDir).filter((other) => other !== name && isName(other));
  const ours = beside.length === 0 ? [] : node.deleting().recordedNetworks(runDir, node.files);
  const stores = beside.filter((other) => !ours.includes(other)).map((other) => `${ipam.dataDir}/${other}`);
  return (address, route) => {
    if (own.some((one) => one.address === address)) return true;
    const text = formatAddress(address);
    const isHeld = stores.some((store) => isReserved(node, `${store}/${text}`));
    return isHeld || leadsElsewhere(route, bridge.index);
  };
}

/**
 * Returns a function that says whether a pod on the bridge has an address that the network's store does not reserve: it
 * came from another network, another IPAM plugin or another store. The pod's neighbour entry on the bridge would become
 * the next pod's. Records are read only for an address that has such an entry: one without a pod is left over.
 */
function addressesOnBridge(node: PluginMachine, { name, runDir, ipam }: BridgeConfiguration): IsTaken {
  let recorded: ReadonlySet<Address> | undefined;
  return (address, neighbour) => {
    const message = neighbour?.messages[0];
    if (message === undefined || parseNeighbour(message)?.permanent !== true) return false;
    if (isReserved(node, `${ipam.dataDir}/${name}/${formatAddress(address)}`)) return false;
    recorded ??= node.rare().recordedAddresses(node, runDir);
    return recorded.has(address);
  };
}

/** Larger than any reservation of host-local. The content does not matter. */
const LARGEST_RESERVATION = 1024;

/** Whether a file reserves an address since the boot. */
export function isReserved(node: PluginMachine, path: string): boolean {
  return (
    node.files.readSmallFile(path, LARGEST_RESERVATION).kind === "text" && !node.rare().isOlderThanBoot(node)(path)
  );
}

/** Whether the route to an address leads to this address only, and not by the bridge. */
function leadsElsewhere(found: Reply | undefined, bridge: number): boolean {
  const message = found?.messages[0];
  if (message === undefined) return false;
  if (isLocalRoute(message)) return true;
  const route = parseRoute(message);
  return route?.destination !== undefined && isHostCidr(route.destination) && route.outputInterface !== bridge;
}
