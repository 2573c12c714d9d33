import { DrawbridgeError } from "../../kernel/error.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { cidrFamily, hostCidr, isSameCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { newAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createVeth, deleteLink, getLink } from "../../kernel/route/link.ts";
import { deleteNeighbour, setNeighbour } from "../../kernel/route/neighbour.ts";
import { waitUntilLocal, waitUntilUp } from "../../kernel/route/readiness.ts";
import { appendRoute, deleteRoute, linkRoute, MAIN_TABLE, newRoute, type RouteSpec } from "../../kernel/route/route.ts";
import { describedLink } from "../../kernel/route/socket.ts";
import { removeDelayDevice } from "../../kernel/traffic_control/delay_device.ts";
import type { PluginMachine } from "../host.ts";
import { bypassBridge, leaveToBridge } from "./bypass.ts";
import { shape } from "./shaping.ts";
import { carryOut, type Step } from "./steps.ts";
import { type Bridge, type PodRoute, PORT_FLAGS, type Wiring } from "./wiring.ts";

/** The place of a pod's link. */
export interface LinkPlace {
  /** A socket in the node's namespace. */
  readonly hostSocket: NetlinkSocket;
  /** A socket in the pod's namespace. */
  readonly podSocket: NetlinkSocket;
  /** The descriptor of the pod's namespace. */
  readonly netnsFd: number;
  readonly bridge: Bridge;
  /** Whether the pod is the first of its subnet, so that the bridge gets an address. */
  readonly isFirst: boolean;
  /** The directory whose lock protects the tables of ports. */
  readonly runDir: string;
  /** Accepts the pod once its link carries packets. A pod that is refused loses its link. */
  readonly confirm: () => void;
}

/** A pod could not be wired. `cause` is reported to the runtime. */
export class WiringFailure extends Error {
  readonly linkIsGone: boolean;

  constructor(cause: unknown, linkIsGone: boolean) {
    super("wiring failed", { cause });
    this.linkIsGone = linkIsGone;
  }
}

/**
 * Makes the link and both its ends, and waits until they carry packets and the pod is accepted. When any of that fails,
 * the link and the neighbour entries are removed again; a link of that name that existed before stays.
 *
 * @throws WiringFailure
 */
export function makePodLink(node: Pick<PluginMachine, "syscalls">, place: LinkPlace, wiring: Wiring): void {
  const { hostSocket, podSocket, bridge, runDir } = place;
  const { hostInterface: name, mtu } = wiring;
  let isCreated: boolean | undefined;
  try {
    // The link is described before it is up: the kernel then catches up on pending work about its carrier
    // (linkwatch_sync_dev). For a link that is up and has no carrier yet, it would wait for a grace period of RCU
    // (dev_deactivate).
    const [created, made] = hostSocket.batch([
      createVeth({
        host: { name, mac: wiring.hostMac },
        peer: { name: wiring.ifname, mac: wiring.podMac, netnsFd: place.netnsFd },
        mtu,
        master: bridge.index,
      }),
      getLink({ name }),
    ]);
    isCreated = created?.error === undefined;
    if (created?.error !== undefined) throw created.error;
    // Kernels before 5.10 omit the peer's index when it is the same (nla_put_iflink).
    const { index, peer = index } = describedLink(made);
    const lead = wiring.bypassBridge ? bypassBridge : leaveToBridge;
    lead(node, hostSocket, { bridge, runDir, port: index }, wiring);
    // The limits come before the link's alias: policyd repairs them from then on.
    if (wiring.shaping !== undefined) shape(hostSocket, wiring.shaping, wiring, index);
    carryOut(hostSocket, hostSteps(wiring, bridge));
    carryOut(podSocket, podSteps(wiring, peer));
    waitUntilReady(place, wiring, place.isFirst || !bridge.wasOperational ? bridge : undefined);
    place.confirm();
  } catch (error) {
    throw new WiringFailure(error, isCreated !== undefined && takeBack(hostSocket, wiring, bridge, isCreated));
  }
}

/** Returns the further requests in the node's namespace: for the link, and for the bridge, which may have addresses. */
function hostSteps(wiring: Wiring, bridge: Bridge): readonly Step[] {
  const link = { name: wiring.hostInterface };
  return [
    // A bridge port needs no address of its own. Without IPv6, or with an MTU too small for it, there is none anyway.
    { request: changeLink(link, { linkLocalAddress: false }), tolerates: "EAFNOSUPPORT" },
    {
      request: changeLink(link, {
        up: true,
        alias: wiring.alias,
        bridgePort: { hairpin: wiring.hairpin, ...PORT_FLAGS },
      }),
    },
    ...wiring.addresses.map(({ address }) => ({ request: setNeighbour(bridge.index, address, wiring.podMac) })),
    ...wiring.bridgeAddresses.map((address) => ({
      request: newAddress(bridge.index, address),
      tolerates: "EEXIST" as const,
    })),
    // policyd adds a missing route, and may have been faster.
    ...wiring.hostRoutes.map((destination) => ({
      request: newRoute(linkRoute(destination, bridge.index)),
      tolerates: "EEXIST" as const,
    })),
  ];
}

/**
 * Returns the requests in the pod's namespace, in order: routes need the link up, and neighbours need its addresses.
 *
 * @param index the index of the pod's interface
 */
export function podSteps(wiring: Wiring, index: number): readonly Step[] {
  const gateways = new Set(wiring.gateways);
  return [
    { request: changeLink({ index: LOOPBACK_INDEX }, { up: true }) },
    ...wiring.addresses.map((address) => ({ request: newAddress(index, address) })),
    { request: changeLink({ index }, { up: true }) },
    ...[...gateways].map((gateway) => ({ request: setNeighbour(index, gateway, wiring.hostMac) })),
    ...gatewaySteps(wiring, index),
    ...wiring.routes.map((route) => ({
      request: newRoute(routeSpec(route, index)),
      ...(route.isImplicit ? { tolerates: "EEXIST" as const } : {}),
    })),
    ...linkLocalSteps(wiring, index),
  ];
}

/**
 * Returns the routes to the gateways, on the link: programs in the pod, and the plugin `sbr`, may only add routes by a
 * gateway that is there. A further interface of one network adds its own: the kernel takes an IPv6 route by a gateway
 * only if a more specific one to the gateway is by the same interface (ip6_route_check_nh_onlink).
 */
function gatewaySteps({ bridgeAddresses, routes }: Wiring, index: number): readonly Step[] {
  return bridgeAddresses
    .map(({ address }) => hostCidr(address))
    .filter(
      (gateway) =>
        !routes.some(({ destination, table = MAIN_TABLE }) => table === MAIN_TABLE && isSameCidr(destination, gateway)),
    )
    .map((gateway) => ({ request: appendRoute(linkRoute(gateway, index)), tolerates: "EEXIST" }));
}

/**
 * Returns the route that sends link-local destinations to the node, like all others, instead of to neighbours that the
 * kernel resolves.
 *
 * The neighbour tables are shared by all network namespaces and hold a thousand entries each (gc_thresh3). An
 * unprivileged program that sends to a thousand addresses of its link fills the IPv6 table, and then neither the node
 * nor another pod finds a new neighbour. For IPv4 a pod has no addresses on its link. Packets between pods and node use
 * permanent entries, which do not count. A pod that may change its routes can still fill the tables.
 */
function linkLocalSteps({ gateways }: Wiring, index: number): readonly Step[] {
  const gateway = gateways.find((one) => familyOf(one) === 6);
  if (gateway === undefined) return [];
  // The kernel's own route has 256. Routes of several links differ in priority, else they would become one route.
  const priority = 1 + (index % 255);
  const destination = LINK_LOCAL;
  const request = newRoute({ family: 6, destination, gateway, outputInterface: index, onLink: true, priority });
  return [{ request, tolerates: "EEXIST" }];
}

const LINK_LOCAL = parseCidr("fe80::/64");

/** The loopback interface has index 1 in every network namespace (net/core/dev.c, LOOPBACK_IFINDEX). */
const LOOPBACK_INDEX = 1;

function routeSpec(route: PodRoute, index: number): RouteSpec {
  const { destination } = route;
  const isDefault = destination.prefixLength === 0;
  return {
    ...route,
    family: cidrFamily(destination),
    destination: isDefault ? undefined : destination,
    outputInterface: index,
    // The pod has no subnet on its link, so every gateway is declared to be on the link.
    onLink: true,
  };
}

/**
 * Waits until both directions work, so that the pod's first packet and its answer get through once ADD has returned.
 *
 * @param freshBridge the bridge, if it did not carry packets yet or one of its addresses is new
 */
function waitUntilReady({ hostSocket, podSocket }: LinkPlace, wiring: Wiring, freshBridge: Bridge | undefined): void {
  for (const { address } of wiring.addresses) {
    if (familyOf(address) === 6) waitUntilLocal(podSocket, address);
  }
  waitUntilUp(hostSocket, { name: wiring.hostInterface });
  if (freshBridge === undefined) return;
  if (!freshBridge.wasOperational) waitUntilUp(hostSocket, { index: freshBridge.index });
  for (const { address } of wiring.bridgeAddresses) waitUntilLocal(hostSocket, address);
}

/** Removes the link, neighbours and routes of a failed ADD. @returns whether no link of this attachment is left */
function takeBack(hostSocket: NetlinkSocket, wiring: Wiring, bridge: Bridge, isCreated: boolean): boolean {
  const neighbours = wiring.addresses.map(({ address }) => deleteNeighbour(bridge.index, address));
  try {
    const [deleted] = hostSocket.batch([
      ...(isCreated ? [deleteLink({ name: wiring.hostInterface })] : []),
      ...neighbours,
      ...wiring.hostRoutes.map((destination) => deleteRoute(linkRoute(destination, bridge.index))),
    ]);
    // When the host end existed before, its delay device may have existed too.
    if (isCreated && wiring.shaping?.fromPod !== undefined)
      removeDelayDevice(hostSocket, wiring.shaping.fromPod.device);
    return !isCreated || deleted?.error === undefined || deleted.error.errnoName === "ENODEV";
  } catch (error) {
    if (error instanceof DrawbridgeError) return false;
    throw error;
  }
}
