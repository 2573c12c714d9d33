import type { Allocation } from "../ipam/store.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import { cidrContains, cidrFamily, hostCidr } from "../kernel/ip/cidr.ts";
import type { Address } from "../kernel/ip/address.ts";
import { familyOf } from "../kernel/ip/address.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import type { Request } from "../kernel/netlink/message.ts";
import { newAddress } from "../kernel/route/interface_address.ts";
import { changeLink, createVeth } from "../kernel/route/link.ts";
import { setNeighbour } from "../kernel/route/neighbour.ts";
import type { RouteSpec } from "../kernel/route/route.ts";
import { newRoute } from "../kernel/route/route.ts";
import type { Bridge } from "./bridge.ts";
import type { BridgeConfiguration } from "./configuration.ts";
import type { Attachment } from "./environment.ts";
import type { Sha256 } from "./names.ts";
import { hostInterfaceName, hostMac, podMac } from "./names.ts";
import type { AddResult, Dns, ResultRoute } from "./result.ts";
import { defaultRoute } from "./result.ts";

/** Everything an attachment will be, decided before the kernel is asked for any of it. */
export interface Wiring {
  readonly hostInterface: string;
  readonly hostMac: MacAddress;
  readonly ifname: string;
  readonly podMac: MacAddress;
  /** Bytes; 0 for the kernel's default. */
  readonly mtu: number;
  readonly hairpin: boolean;
  /** Shown by `ip link`: whose interface this is (B23). */
  readonly alias: string;
  /** The pod's addresses, /32 and /128. */
  readonly addresses: readonly Cidr[];
  /** The bridge's addresses, with the subnet's prefix length; one per allocation. */
  readonly gateways: readonly Cidr[];
  readonly routes: readonly (ResultRoute & { readonly gateway: Address })[];
}

/**
 * Decides how a pod is wired in routed mode (DESIGN §4): single addresses and a default route through the bridge, so
 * that every packet passes the node's IP hooks, also to a pod on the same bridge.
 */
export function decideWiring(
  configuration: BridgeConfiguration,
  attachment: Attachment,
  allocations: readonly Allocation[],
  sha256: Sha256,
): Wiring {
  const { containerId, ifname } = attachment;
  const hostInterface = hostInterfaceName(sha256, containerId, ifname);
  const pod = attachment.arguments.pod;
  const [first] = allocations;
  if (first === undefined) throw new RangeError("wiring needs at least one allocation");
  const ipv4 = allocations.find(({ address }) => cidrFamily(address) === 4) ?? first;
  return {
    hostInterface,
    hostMac: hostMac(sha256, hostInterface),
    ifname,
    podMac: configuration.mac ?? podMac(ipv4.address.address),
    mtu: configuration.mtu,
    hairpin: configuration.hairpinMode,
    // The kernel takes 255 bytes, our NUL among them (IFLA_IFALIAS, IFALIASZ); all characters here are ASCII.
    alias: (pod === undefined ? containerId : `${pod.namespace}/${pod.name}`).slice(0, 254),
    addresses: allocations.map(({ address }) => hostCidr(address.address)),
    gateways: allocations.map(({ address, gateway }) => ({ address: gateway, prefixLength: address.prefixLength })),
    routes: podRoutes(configuration.ipam.routes, allocations),
  };
}

/**
 * The routes inside the pod: the configured ones of its families, and a default route for each family that none of
 * them gives. A route without a gateway goes through the bridge.
 */
function podRoutes(configured: readonly ResultRoute[], allocations: readonly Allocation[]): Wiring["routes"] {
  const routes = new Map<string, ResultRoute & { readonly gateway: Address }>();
  for (const { gateway } of allocations) {
    const family = familyOf(gateway);
    const ofFamily = configured.filter(({ destination }) => cidrFamily(destination) === family);
    for (const route of [...ofFamily, defaultRoute(gateway)]) {
      const key = `${family} ${route.destination.address}/${route.destination.prefixLength}`;
      if (!routes.has(key)) routes.set(key, { destination: route.destination, gateway: route.gateway ?? gateway });
    }
  }
  return [...routes.values()];
}

/** What is asked of the kernel in the node's namespace. The bridge's addresses may be there already. */
export function hostRequests(
  wiring: Wiring,
  bridge: Bridge,
  netnsFd: number,
): { readonly gateways: readonly Request[]; readonly link: readonly Request[] } {
  return {
    gateways: wiring.gateways.map((gateway) => newAddress(bridge.index, gateway)),
    link: [
      createVeth({
        host: { name: wiring.hostInterface, mac: wiring.hostMac },
        peer: { name: wiring.ifname, mac: wiring.podMac, netnsFd },
        mtu: wiring.mtu,
        master: bridge.index,
      }),
      changeLink(
        { name: wiring.hostInterface },
        { up: true, linkLocalAddress: false, alias: wiring.alias, bridgePort: { hairpin: wiring.hairpin } },
      ),
      ...wiring.addresses.map(({ address }) => setNeighbour(bridge.index, address, wiring.podMac)),
    ],
  };
}

/**
 * What is asked of the kernel in the pod's namespace, in order: routes need the link up, and neighbours its addresses.
 *
 * @param index the index of the pod's interface
 */
export function podRequests(wiring: Wiring, bridge: Bridge, index: number): readonly Request[] {
  const gateways = new Set(wiring.gateways.map(({ address }) => address));
  return [
    changeLink({ index: LOOPBACK_INDEX }, { up: true }),
    ...wiring.addresses.map((address) => newAddress(index, address)),
    changeLink({ index }, { up: true }),
    ...[...gateways].map((gateway) => setNeighbour(index, gateway, bridge.mac)),
    ...wiring.routes.map((route) => newRoute(routeSpec(route, index))),
  ];
}

/** The loopback interface has index 1 in every network namespace (net/core/dev.c, LOOPBACK_IFINDEX). */
const LOOPBACK_INDEX = 1;

function routeSpec(route: Wiring["routes"][number], index: number): RouteSpec {
  const isDefault = route.destination.prefixLength === 0;
  return {
    family: cidrFamily(route.destination),
    destination: isDefault ? undefined : route.destination,
    gateway: route.gateway,
    outputInterface: index,
    // The pod has no subnet on its link, so every gateway is declared to be there.
    onLink: true,
  };
}

/** The result of ADD: bridge, host end and pod interface, in the order of the reference plugin. */
export function addResult(wiring: Wiring, bridge: Bridge, sandbox: string, dns: Dns): AddResult {
  const mtu = { mtu: wiring.mtu === 0 ? bridge.mtu : wiring.mtu };
  return {
    interfaces: [
      { name: bridge.name, mac: bridge.mac, mtu: bridge.mtu },
      { name: wiring.hostInterface, mac: wiring.hostMac, ...mtu },
      { name: wiring.ifname, mac: wiring.podMac, ...mtu, sandbox },
    ],
    ips: wiring.addresses.map((address) => {
      const gateway = wiring.gateways.find((candidate) => cidrContains(candidate, address.address));
      return { interface: 2, address, ...(gateway === undefined ? {} : { gateway: gateway.address }) };
    }),
    routes: wiring.routes,
    dns,
  };
}
