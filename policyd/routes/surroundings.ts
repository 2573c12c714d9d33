import { type Address, type Family, familyOf } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr, isHostCidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { EVERY_ADDRESS } from "../../kernel/ip/special.ts";
import { type FoundRoute, linksOf, MAIN_TABLE, type Route } from "../../kernel/route/route.ts";
import type { JudgedNode, JudgedNodes } from "../../objects/nodes/node_verdict.ts";
import { PrefixIndex } from "../../objects/nodes/prefix_index.ts";
import type { KernelState, NodeLink } from "./route_kernel/kernel_state.ts";
import type { Encapsulation } from "../configuration/schema.ts";
import { isOurs, ROUTE_PRIORITY } from "./own_routes.ts";
import { TUNNEL, tunnelOverhead } from "./tunnel.ts";
import { tunnelMac } from "./tunnel_mac.ts";
import { type Obstacles, obstaclesOf } from "./obstacles.ts";

export interface RouteOptions {
  readonly encapsulation: Encapsulation;
  /** The bridge the pods are on. */
  readonly bridge: string;
  /** The marks that our rules give to pods' packets before they are routed. */
  readonly marks?: readonly number[];
  /** Whether a record of a pod needs an address of the bridge; undefined where nothing may be removed from it. */
  readonly uses?: (address: Cidr) => boolean;
}

/** This node and the others, which are sorted by name. */
export interface ClusterNodes {
  readonly own: JudgedNode | undefined;
  readonly others: readonly JudgedNode[];
}

/** Returns this node and the others, from the verdicts on the Node objects. */
export function clusterNodes({ nodes }: JudgedNodes, nodeName: string): ClusterNodes {
  const own = nodes.get(nodeName);
  return { own, others: [...nodes.values()].filter((node) => node !== own).sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

/** Returns a node's first InternalIP of a family. The tunnel goes between the first ones of either family. */
export function addressOf(node: JudgedNode | undefined, family: Family): Address | undefined {
  return node?.addresses.find((address) => familyOf(address) === family);
}

/**
 * Returns the MTU of pods in bytes, the `mtu` of the plugin's configuration.
 *
 * `auto` leaves room for the tunnel even where all nodes are reached without it: a node behind a router may join later,
 * and pods keep the MTU they were created with.
 *
 * @param underlay MTU of the device that has the node's own address
 * @param outer family of that address
 */
export function podMtu(encapsulation: Encapsulation, underlay: number, outer: Family): number {
  return encapsulation === "never" ? underlay : underlay - tunnelOverhead(outer);
}

/** This node's Node object and the state of its kernel, as far as routes to other nodes depend on them. */
export interface RouteSurroundings {
  readonly own: JudgedNode | undefined;
  /** The MAC address of this node's end of the tunnel. */
  readonly ownMac: MacAddress | undefined;
  readonly options: RouteOptions;
  /** Whether IPv6 is on. */
  readonly hasIpv6: boolean;
  readonly links: readonly NodeLink[];
  readonly addresses: KernelState["addresses"];
  /** The link of this node's first address. */
  readonly underlay: NodeLink | undefined;
  /** MTU of pods in bytes; undefined without {@link underlay}. */
  readonly podMtu: number | undefined;
  /** Other programs' routes: where packets would go without ours, or whether they would be discarded. */
  readonly foreign: PrefixIndex<FoundRoute>;
  /** The same routes by their destinations ({@link routeKey}). */
  readonly takenBy: ReadonlyMap<string, Route>;
  /** Routes that discard packets and come before ours, by destination. */
  readonly discarding: ReadonlyMap<string, Route>;
  /** Other programs' routes, and those that discard, to find the ones inside of a prefix. */
  readonly obstacles: Obstacles;
  /** The networks that this node is on. */
  readonly connected: readonly Cidr[];
  /** This node's first address of each family, if an interface has it. */
  readonly sources: Readonly<Record<Family, Address | undefined>>;
}

/** The protocol of routes that the kernel adds with an interface's address (RTPROT_KERNEL, linux/rtnetlink.h). */
const PROTOCOL_KERNEL = 2;

/** The loopback link. An address on it is the node's, but packets do not leave by it: its MTU does not matter. */
export const LOOPBACK_LINK = "lo";

/**
 * Returns this node without its addresses on links that only this node has, as docker0, where another address of the
 * family is on a link to the other nodes: one with a router or with another node's address in its networks.
 */
export function withoutPrivate(own: JudgedNode, others: readonly JudgedNode[], state: KernelState): JudgedNode {
  const shared = new Set(
    state.routes.flatMap((route) => {
      const { table, gateway, hasOtherNextHop, destination } = route;
      if (table !== MAIN_TABLE) return [];
      const isToNode = (address: Address): boolean => destination !== undefined && cidrContains(destination, address);
      const hasRouter = gateway !== undefined || hasOtherNextHop;
      return hasRouter || others.some(({ addresses }) => addresses.some(isToNode)) ? linksOf(route) : [];
    }),
  );
  const isShared = (address: Address): boolean => linksWith(address, state).some(({ index }) => shared.has(index));
  const isPrivate = (address: Address): boolean =>
    state.addresses.some(
      ({ index, address: one }) => one.address === address && !isHostCidr(one) && !shared.has(index),
    ) && !isShared(address);
  const { addresses } = own;
  const usable = addresses.filter(
    (address) => !isPrivate(address) || !addresses.some((one) => familyOf(one) === familyOf(address) && isShared(one)),
  );
  return { ...own, addresses: usable };
}

export function surroundingsOf(
  own: JudgedNode | undefined,
  options: RouteOptions,
  state: KernelState,
): RouteSurroundings {
  const { links, addresses, hasIpv6 } = state;
  const foreign = state.routes.filter((route) => route.table === MAIN_TABLE && !isOurs(route));
  const sourceOf = (family: Family): Address | undefined => {
    const address = addressOf(own, family);
    return address !== undefined && linksWith(address, state).length > 0 ? address : undefined;
  };
  const found = [
    ...foreign.map((route) => ({ route, discards: false })),
    ...(state.discarding ?? []).map((route) => ({ route, discards: true })),
  ];
  const primary = own?.addresses[0];
  const underlay = primary === undefined ? undefined : underlayOf(primary, state);
  return {
    own,
    ownMac: primary === undefined ? undefined : tunnelMac(primary),
    options,
    hasIpv6,
    links,
    addresses,
    underlay,
    podMtu:
      primary === undefined || underlay === undefined
        ? undefined
        : podMtu(options.encapsulation, underlay.mtu, familyOf(primary)),
    foreign: byPrefix(found),
    takenBy: byDestination(foreign),
    discarding: byDestination((state.discarding ?? []).filter(({ priority }) => priority <= ROUTE_PRIORITY)),
    obstacles: obstaclesOf(found),
    connected: foreign.flatMap(({ destination, gateway, hasOtherNextHop, protocol }) =>
      destination !== undefined && gateway === undefined && !hasOtherNextHop && protocol === PROTOCOL_KERNEL
        ? [destination]
        : [],
    ),
    sources: { 4: sourceOf(4), 6: sourceOf(6) },
  };
}

/** Returns routes by the prefix of addresses that take them; of equal ones the lowest metric counts, then the first. */
function byPrefix(routes: readonly FoundRoute[]): PrefixIndex<FoundRoute> {
  const index = new PrefixIndex<FoundRoute>();
  for (const found of routes.toReversed().sort((a, b) => b.route.priority - a.route.priority)) {
    index.set(found.route.destination ?? EVERY_ADDRESS[found.route.family], found);
  }
  return index;
}

/** Returns routes of the main table by their destination, without default routes. */
function byDestination(routes: readonly Route[]): ReadonlyMap<string, Route> {
  return new Map(
    routes.flatMap((route) =>
      route.destination === undefined ? [] : [[routeKey(MAIN_TABLE, route.destination), route] as const],
    ),
  );
}

/** Returns the names of the links with default routes, each once. */
export function uplinksOf(routes: readonly Route[], links: readonly NodeLink[]): readonly string[] {
  const indexes = routes.flatMap((route) => (route.destination === undefined ? linksOf(route) : []));
  return links.flatMap(({ index, name }) => (indexes.includes(index) ? [name] : []));
}

/** Returns the key of a route of ours: we have one for each destination in a table. */
export function routeKey(table: number, destination: Cidr): string {
  return `${table} ${formatCidr(destination)}`;
}

/** Returns the links that are up and have an address, without the tunnel, which has a copy of it. */
function linksWith(address: Address, { addresses, links }: KernelState): readonly NodeLink[] {
  const indexes = addresses.filter((one) => one.address.address === address).map(({ index }) => index);
  return links.filter(({ index, name, up }) => up && name !== TUNNEL.name && indexes.includes(index));
}

/** Returns why an address of this node is not in use; undefined where a link that is up has it. */
export function lackOf(address: Address, state: KernelState): string | undefined {
  if (linksWith(address, state).length > 0) return undefined;
  const unused = (state.unused ?? []).find((one) => one.address.address === address);
  if (unused === undefined) return "is on no interface that is up";
  const name = state.links.find(({ index }) => index === unused.index)?.name;
  return unused.duplicateDetected
    ? `is on ${name} and on another host, too, so that the kernel does not use it (dadfailed)`
    : `is on ${name}, and the kernel still looks for another host that has it (tentative)`;
}

/**
 * Whether packets from an address leave by other links than its own: only loopback or a link without a link layer, as a
 * dummy link, has it.
 */
export function leavesElsewhere(address: Address, state: KernelState): boolean {
  return linksWith(address, state).every(({ hasLinkLayer }) => !hasLinkLayer);
}

/** Returns the link by which packets from an address leave; of several the one with the smallest MTU. */
function underlayOf(address: Address, state: KernelState): NodeLink | undefined {
  const having = linksWith(address, state);
  const { outward = [] } = state;
  const leaving = state.links.filter(({ index, name, up }) => up && name !== LOOPBACK_LINK && outward.includes(index));
  const [link] = leaving.toSorted((a, b) => a.mtu - b.mtu);
  return having.length === 0 ? undefined : (link ?? having.find(({ name }) => name !== LOOPBACK_LINK));
}
