import { type Address, bitsOf, compareAddresses } from "../../kernel/ip/address.ts";
import { type Cidr, doOverlap, formatCidr, lastAddress, networkAddress } from "../../kernel/ip/cidr.ts";
import { type FoundRoute, type Route, ROUTE_PROTOCOL } from "../../kernel/route/route.ts";
import { ByAddress } from "../../objects/nodes/by_address.ts";
import { shortList } from "../../objects/printable.ts";
import { problemLine } from "../problems/problem.ts";
import { TUNNEL } from "./tunnel.ts";

/** RTPROT_KERNEL: a route that the kernel adds with an address of a link. */
const PROTOCOL_KERNEL = 2;
/** Metrics of the routes that the kernel adds for a bridge's address. */
const KERNEL_METRIC = { 4: 0, 6: 256 } as const;
/** The largest number of obstacles named for one prefix. */
const MOST_NAMED = 3;

/** A route with the first address of its destination. */
type PlacedRoute = FoundRoute & { readonly first: Address };

/** The routes of other programs, to find those inside of a prefix. */
export type Obstacles = ByAddress<PlacedRoute>;

/** @param routes of the main table; those of protocol 107 are ours and are ignored */
export function obstaclesOf(routes: readonly FoundRoute[]): Obstacles {
  const placed = routes.flatMap((found): readonly PlacedRoute[] => {
    const { destination, protocol } = found.route;
    if (destination === undefined || protocol === ROUTE_PROTOCOL) return [];
    return [{ ...found, first: networkAddress(destination) }];
  });
  const obstacles: Obstacles = new ByAddress(({ first }) => first);
  // Each goes to the end of a sorted list, which costs nothing.
  for (const one of placed.sort((a, b) => compareAddresses(a.first, b.first))) obstacles.add(one);
  return obstacles;
}

/**
 * Returns the routes to a part of a prefix, or to all of it. The kernel takes the longest prefix, so each of these comes
 * before a route to the whole prefix.
 */
function within(obstacles: Obstacles, cidr: Cidr): readonly FoundRoute[] {
  return obstacles
    .between(networkAddress(cidr), lastAddress(cidr))
    .filter(({ route }) => lengthOf(route) >= cidr.prefixLength);
}

function lengthOf({ destination }: Route): number {
  return destination?.prefixLength ?? 0;
}

/**
 * Returns the routes that keep packets from pods of this node (WAY-01): each one that discards, and those by another
 * link than the bridge. The kernel's own routes, of a link's address, are checked elsewhere. A route to a single
 * address by a link is that of a pod that another plugin has wired without a bridge; where it is an address of one of
 * our pods, the lookup of that address finds it.
 *
 * @param bridge its index; undefined without it
 */
export function ownObstacles(obstacles: Obstacles, cidr: Cidr, bridge: number | undefined): readonly FoundRoute[] {
  return within(obstacles, cidr).filter(({ route, discards }) => {
    const length = lengthOf(route);
    if (discards) return length > cidr.prefixLength || route.priority <= KERNEL_METRIC[route.family];
    if (route.protocol === PROTOCOL_KERNEL || (route.outputInterface === bridge && bridge !== undefined)) return false;
    return length < bitsOf(route.family) || route.gateway !== undefined;
  });
}

/**
 * Returns the routes that keep packets from pods of another node: those that are longer than our route and discard
 * packets or lead elsewhere.
 *
 * @param isOnWay whether a route leads where ours does
 */
export function peerObstacles(
  obstacles: Obstacles,
  cidr: Cidr,
  isOnWay: (route: Route) => boolean,
): readonly FoundRoute[] {
  return within(obstacles, cidr).filter(
    ({ route, discards }) => lengthOf(route) > cidr.prefixLength && (discards || !isOnWay(route)),
  );
}

/** Returns one line about all obstacles of a prefix, or none. @param what says what the prefix is */
export function obstacleProblems(what: string, cidr: Cidr, obstacles: readonly FoundRoute[]): readonly string[] {
  if (obstacles.length === 0) return [];
  const named = shortList(obstacles, MOST_NAMED, obstacleWords);
  return [
    problemLine(
      "pod-networks",
      `${what} ${formatCidr(cidr)} has routes of other programs inside, which come before ours: ${named}; ` +
        `delete what is left of another add-on (ip route show root ${formatCidr(cidr)})`,
    ),
  ];
}

/** Describes a route: its destination, its protocol, and where its packets go. */
export function obstacleWords({ route, discards }: FoundRoute): string {
  const to = route.destination === undefined ? "default" : formatCidr(route.destination);
  return `${to} (protocol ${route.protocol}${discards ? ", discards packets" : `, by link ${route.outputInterface ?? "unknown"}`})`;
}

/** An address of a link in a pod CIDR of this node. */
interface AddressConflict {
  readonly cidr: Cidr;
  /** The address with its link. */
  readonly words: string;
  readonly look: string;
}

/**
 * Returns the addresses of links beside ours in pod CIDRs of this node: packets for one of the two go to the other.
 * Those of other bridges are of another plugin's pods (FOREIGN-03).
 */
export function addressConflicts(
  podCidrs: readonly Cidr[],
  links: readonly { readonly index: number; readonly name: string; readonly isBridge?: boolean }[],
  addresses: readonly { readonly index: number; readonly address: Cidr }[],
): readonly AddressConflict[] {
  const names = new Map(links.flatMap((link) => (link.isBridge === true ? [] : [[link.index, link.name] as const])));
  return addresses.flatMap(({ index, address }) => {
    const cidr = podCidrs.find((one) => doOverlap(one, address));
    const link = names.get(index);
    if (cidr === undefined || link === undefined || link === TUNNEL.name) return [];
    return [{ cidr, words: `the address ${formatCidr(address)} of ${link}`, look: `ip address show dev ${link}` }];
  });
}
