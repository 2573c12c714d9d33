import {
  displayName,
  hostInterfaceName,
  hostMac,
  linkAlias,
  podMac,
  type Sha256,
} from "../../attachment/names_and_macs.ts";
import type { Allocation } from "../../ipam/store.ts";
import { type Address, familyOf } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, hostCidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { isLinkLocal } from "../../kernel/ip/special.ts";
import { FORWARDING, type Link, OPERATIONAL_STATE_UP } from "../../kernel/route/link.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import type { Attachment } from "../environment.ts";
import { type AddResult, defaultRoute, type Dns, type ResultRoute } from "../result.ts";
import { decideShaping, type Shaping } from "./shaping.ts";

/** The complete plan of an attachment, decided before the first request to the kernel. */
export interface Wiring {
  readonly hostInterface: string;
  /** The MAC address that the pod sends to: frames to it are the node's, whether or not the bridge handles them. */
  readonly hostMac: MacAddress;
  readonly ifname: string;
  readonly podMac: MacAddress;
  /** Whether the MAC address was requested and may be another pod's; one derived from the pod's address is unique. */
  readonly isMacRequested: boolean;
  /** Bytes, of both ends. */
  readonly mtu: number;
  readonly hairpin: boolean;
  /** The owner of the interface, which `ip link` shows (B23). */
  readonly alias: string;
  /** The pod's addresses, /32 and /128. */
  readonly addresses: readonly Cidr[];
  /** The next hops of the pod, one per address. */
  readonly gateways: readonly Address[];
  /** The gateways that are the bridge's addresses, with the subnet's prefix length. */
  readonly bridgeAddresses: readonly Cidr[];
  /** The pod's addresses outside the subnets of the bridge's addresses: the node needs a route to each. */
  readonly hostRoutes: readonly Cidr[];
  readonly routes: readonly PodRoute[];
  readonly shaping: Shaping | undefined;
  /** Whether packets go around the bridge where possible. */
  readonly bypassBridge: boolean;
}

/** A route inside the pod. */
export interface PodRoute extends ResultRoute {
  readonly gateway: Address;
  /**
   * Whether the route is not configured: if the pod has such a route already, by a second interface, that one stays.
   */
  readonly isImplicit: boolean;
}

/**
 * Decides how a pod is wired in routed mode: single addresses, routes to its gateways, and a default route through the
 * bridge, so that every packet passes the node's IP hooks, even one to a pod on the same bridge.
 */
export function decideWiring(
  configuration: BridgeConfiguration,
  attachment: Attachment,
  allocations: readonly Allocation[],
  bridge: Bridge,
  sha256: Sha256,
): Wiring {
  const { containerId, ifname } = attachment;
  const hostInterface = hostInterfaceName(sha256, containerId, ifname);
  const pod = attachment.arguments.pod;
  const [first] = allocations;
  if (first === undefined) throw new RangeError("wiring needs at least one allocation");
  const { limits } = configuration;
  const shaping = limits && decideShaping(limits, attachment, bridge.mtu, sha256);
  return {
    hostInterface,
    hostMac: hostMac(sha256, hostInterface),
    ifname,
    isMacRequested: configuration.mac !== undefined,
    podMac: configuration.mac ?? podMac(sha256, preferIpv4(allocations, first).address.address),
    mtu: bridge.mtu,
    hairpin: configuration.hairpinMode,
    alias: linkAlias(displayName({ pod, containerId })),
    addresses: allocations.map(({ address }) => hostCidr(address.address)),
    gateways: allocations.map(({ gateway }) => gateway),
    bridgeAddresses: allocations.flatMap(bridgeAddress),
    hostRoutes: allocations
      .filter((allocation) => !leadsTo(allocation))
      .map(({ address }) => hostCidr(address.address)),
    routes: podRoutes(configuration, allocations),
    shaping,
    bypassBridge: configuration.bypassBridge,
  };
}

/** Whether the gateway's subnet contains the pod: external IPAM plugins may name a gateway outside of it. */
function leadsTo({ address, gateway }: Allocation): boolean {
  return cidrContains(address, gateway);
}

/**
 * Returns the bridge's address for a gateway: one in the pod's subnet with the subnet's prefix length, one outside as a
 * single address. A link-local gateway is not put on the bridge: the pod's packets go to the MAC address of its
 * permanent neighbour entry.
 */
function bridgeAddress(allocation: Allocation): readonly Cidr[] {
  const { address, gateway } = allocation;
  if (leadsTo(allocation)) return [{ address: gateway, prefixLength: address.prefixLength }];
  return isLinkLocal(gateway) ? [] : [hostCidr(gateway)];
}

function preferIpv4(allocations: readonly Allocation[], otherwise: Allocation): Allocation {
  for (const allocation of allocations) if (cidrFamily(allocation.address) === 4) return allocation;
  return otherwise;
}

/**
 * Returns the routes inside the pod: the configured ones of its families and, unless isDefaultGateway is false, a
 * default route of the main table for each family without a configured one. A route without a gateway goes through the
 * bridge. Of several routes to one destination with the same priority and table, the first is used.
 */
function podRoutes(configuration: BridgeConfiguration, allocations: readonly Allocation[]): readonly PodRoute[] {
  const routes: PodRoute[] = [];
  const seen = new Set<string>();
  const addRoute = (route: ResultRoute, bridgeGateway: Address, isImplicit: boolean): void => {
    const { destination, table = MAIN_TABLE, priority = 0 } = route;
    const key = `${formatCidr(destination)} ${table}`;
    const isSeen = seen.has(isImplicit ? key : `${key} ${priority}`);
    if (!isSeen) routes.push({ ...route, gateway: route.gateway ?? bridgeGateway, isImplicit });
    seen.add(key);
    seen.add(`${key} ${priority}`);
  };
  for (const { gateway } of allocations) {
    for (const route of configuration.ipam.routes) {
      if (cidrFamily(route.destination) === familyOf(gateway)) addRoute(route, gateway, false);
    }
    if (configuration.isDefaultGateway) addRoute(defaultRoute(gateway), gateway, true);
  }
  return routes;
}

/**
 * The flags of a pod's port.
 *
 * - The mask is of all reserved group addresses except that of pause frames, which the kernel drops. Without the mask,
 *   frames to these addresses bypass the bridge's netfilter hooks, but the bridge still learns their source: a pod could
 *   take over another's MAC.
 * - No pod is a multicast router. By default the bridge learns routers from their messages (PIM, RFC 4286), and sends
 *   them all groups.
 */
export const PORT_FLAGS = { groupForwardMask: 0xfffd, multicastRouter: 0 } as const;

/**
 * Whether the bridge takes packets of a port, unless the link carries none. Ports stay blocked where another program
 * sets their state, and until a delay is over where the bridge was set up under STP, also when STP is off by then.
 */
export function canForward({ bridgePort, operationalState }: Link): boolean {
  return bridgePort?.state === FORWARDING || operationalState !== OPERATIONAL_STATE_UP;
}

/** Returns the result of ADD: bridge, host end and pod interface, in the order of the reference plugin. */
export function addResult(wiring: Wiring, bridge: Bridge, sandbox: string, dns: Dns): AddResult {
  return {
    interfaces: [
      { name: bridge.name, mac: bridge.mac, mtu: bridge.mtu },
      { name: wiring.hostInterface, mac: wiring.hostMac, mtu: wiring.mtu },
      { name: wiring.ifname, mac: wiring.podMac, mtu: wiring.mtu, sandbox },
    ],
    // One gateway per address, in the same order: both come from the allocations.
    ips: wiring.addresses.map((address, i) => {
      const gateway = wiring.gateways[i];
      return { interface: 2, address, ...(gateway === undefined ? {} : { gateway }) };
    }),
    routes: wiring.routes,
    dns,
  };
}

/** A bridge that was found or made. */
export interface Bridge {
  readonly index: number;
  readonly name: string;
  readonly mac: MacAddress;
  readonly mtu: number;
  /** Whether it carried packets before the new port: without ports it does so only if made without a MAC of its own. */
  readonly wasOperational: boolean;
}
