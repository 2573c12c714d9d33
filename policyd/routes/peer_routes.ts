import {
  type Address,
  type Family,
  familyOf,
  formatAddress,
  FAMILIES,
  SMALLEST_IPV6_MTU,
} from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import { type Cidr, cidrFamily, doOverlap, formatCidr, hostCidr, networkAddress } from "../../kernel/ip/cidr.ts";
import { linkLocalAddress, type MacAddress } from "../../kernel/ip/mac.ts";
import type { ForwardingEntry } from "../../kernel/route/forwarding_entry.ts";
import { MAIN_TABLE, type Route } from "../../kernel/route/route.ts";
import type { JudgedNode } from "../../objects/nodes/node_verdict.ts";
import type { OwnRoute } from "./route_kernel/kernel_state.ts";
import { obstacleProblems, peerObstacles } from "./obstacles.ts";
import { PODS_TABLE, ROUTE_PRIORITY } from "./own_routes.ts";
import { TUNNEL } from "./tunnel.ts";
import { tunnelMac } from "./tunnel_mac.ts";
import { addressOf, routeKey, type RouteSurroundings } from "./surroundings.ts";

/** A route of ours whose device may be the tunnel, which may not exist yet. */
export type DesiredRoute = Omit<OwnRoute, "outputInterface"> & {
  /** The index of a link, or the tunnel. */
  readonly device: number | "tunnel";
  /** Whether another program has a route to the same destination, so that ours is not added. */
  readonly isTaken: boolean;
};

export interface DesiredNeighbour {
  readonly address: Address;
  readonly mac: MacAddress;
}

export function hasFamily({ hasIpv6 }: Pick<RouteSurroundings, "hasIpv6">, family: Family): boolean {
  return family === 4 || hasIpv6;
}

/** The desired entries that lead to the pods of other nodes. */
export class PeerRoutes {
  readonly #surroundings: RouteSurroundings;
  /** The node's address to which each MAC address of the tunnel leads. */
  readonly forwarding = new Map<MacAddress, Address>();
  /** By the key of the address. */
  readonly neighbours = new Map<number | bigint, DesiredNeighbour>();
  /** By {@link routeKey}. */
  readonly routes = new Map<string, DesiredRoute>();
  /** The nodes' addresses that are reached without a router. */
  readonly onLink = new Set<Address>();
  readonly problems: string[] = [];
  /** The last node's end of the tunnel: all its pod CIDRs need the same one. */
  #end: ForwardingEntry | undefined;

  constructor(surroundings: RouteSurroundings) {
    this.#surroundings = surroundings;
  }

  /**
   * Adds the entries that lead to the pods of a node (POD-21): for each pod CIDR a route by the node's address of the
   * same family where this node's routes have that address on a link, otherwise a route into the tunnel.
   */
  add(peer: JudgedNode): void {
    for (const cidr of peer.podCidrs) if (hasFamily(this.#surroundings, cidrFamily(cidr))) this.#routeTo(peer, cidr);
    for (const family of FAMILIES) {
      const address = addressOf(peer, family);
      if (address !== undefined && this.#onLink(address) !== undefined) this.onLink.add(address);
    }
  }

  #routeTo(peer: JudgedNode, cidr: Cidr): void {
    const family = cidrFamily(cidr);
    const { connected, options } = this.#surroundings;
    const { name } = peer;
    const network = connected.find((one) => doOverlap(one, cidr) && formatCidr(one) !== formatCidr(cidr));
    if (network !== undefined) {
      this.problems.push(
        `Node ${name}: pod CIDR ${formatCidr(cidr)} overlaps ${formatCidr(network)}, a network this node is on; it gets no route`,
      );
      return;
    }
    const gateway = addressOf(peer, family);
    const device = gateway === undefined ? undefined : this.#direct(gateway);
    if (device !== undefined) {
      const mtu = this.#directMtu(family);
      this.#add(name, { table: MAIN_TABLE, family, destination: cidr, gateway, device, onLink: false, mtu });
    } else if (options.encapsulation !== "never") {
      this.#tunnelTo(peer, cidr);
    } else if (gateway === undefined) {
      this.problems.push(`Node ${name}: no InternalIP of IPv${family}; no route to its pods ${formatCidr(cidr)}`);
    }
    // Otherwise these packets take the node's other routes: with "never" the routers are configured for the pods, and
    // routes to a part of the pod CIDR, as of a BGP daemon, are expected.
    else this.#report(name, cidr, () => true);
  }

  /**
   * Returns the MTU of a direct route. Netfilter reassembles a pod's IPv6 fragments, and where bridged packets pass the
   * IP hooks the kernel forgets that there were fragments (ip6_rcv_core clears IP6CB after br_netfilter;
   * ip6_finish_output). Without this MTU such a datagram would leave in one piece that the device takes and the pods at
   * the other end do not.
   */
  #directMtu(family: Family): number | undefined {
    const { underlay, podMtu: mtu } = this.#surroundings;
    if (family === 4 || mtu === undefined || underlay === undefined) return undefined;
    return mtu < underlay.mtu && mtu >= SMALLEST_IPV6_MTU ? mtu : undefined;
  }

  /**
   * Returns the device of a direct route to an address. A link without a link layer, as of WireGuard, ignores the
   * gateway: it forwards by the packets' own addresses, does not know those of pods, and drops the packets. With
   * "never" that is left to the administrator's configuration.
   */
  #direct(address: Address): number | undefined {
    const { links, options } = this.#surroundings;
    if (options.encapsulation === "always") return undefined;
    const device = this.#onLink(address);
    if (options.encapsulation === "never") return device;
    return links.find(({ index }) => index === device)?.hasLinkLayer === true ? device : undefined;
  }

  /** Returns the device by which an address is reached without a router. */
  #onLink(address: Address): number | undefined {
    const { foreign, links, options } = this.#surroundings;
    const { route, discards = true } = foreign.find(address) ?? {};
    if (route === undefined || discards || route.gateway !== undefined || route.hasOtherNextHop) return undefined;
    const link = links.find(({ index }) => index === route.outputInterface);
    const isDirect = link !== undefined && link.up && link.name !== options.bridge && link.name !== TUNNEL.name;
    return isDirect ? link.index : undefined;
  }

  #tunnelTo(peer: JudgedNode, cidr: Cidr): void {
    const { own, ownMac } = this.#surroundings;
    const { name, addresses } = peer;
    const [remote] = addresses;
    const local = own?.addresses[0];
    const lack = (why: string): void => {
      this.problems.push(`Node ${name}: ${why}; no route to its pods ${formatCidr(cidr)}`);
    };
    if (local === undefined) return lack("this node has no InternalIP to send through the tunnel from");
    if (remote === undefined) return lack("it has no InternalIP");
    if (familyOf(local) !== familyOf(remote)) {
      return lack(
        `its first InternalIP ${formatAddress(remote)} is not of the family of ${formatAddress(local)}, ` +
          "this node's first; all nodes need the same family first",
      );
    }
    const family = cidrFamily(cidr);
    this.#end = this.#end?.remote === remote ? this.#end : { mac: tunnelMac(remote), remote };
    const { mac } = this.#end;
    const twin = this.forwarding.get(mac);
    // The hash has only 46 bits: whoever chooses an IPv6 address can find one with another node's MAC address.
    const hasTwin = twin !== undefined && twin !== remote;
    if (mac === ownMac || hasTwin) {
      return lack(
        `its InternalIP ${formatAddress(remote)} has the same MAC address in the tunnel as another node's; give it another InternalIP`,
      );
    }
    const node = addressOf(peer, family);
    // IPv6 refuses a gateway that is reached by another device's route, so use the other end's link-local address.
    const gateway = family === 6 ? linkLocalAddress(mac) : (node ?? networkAddress(cidr));
    this.forwarding.set(mac, remote);
    this.neighbours.set(addressKey(gateway), { address: gateway, mac });
    const way = { family, gateway, device: "tunnel", onLink: family === 4 } as const;
    this.#add(name, { ...way, table: MAIN_TABLE, destination: cidr });
    if (node === undefined) return;
    const host = hostCidr(node);
    const toNode = { ...way, table: PODS_TABLE, destination: host, source: undefined, isTaken: false };
    this.routes.set(routeKey(PODS_TABLE, host), toNode);
  }

  /** @param isOnWay whether another program's route leads where these packets have to go */
  #report(name: string, cidr: Cidr, isOnWay: (route: Route) => boolean): void {
    const found = peerObstacles(this.#surroundings.obstacles, cidr, isOnWay);
    this.problems.push(...obstacleProblems(`pods of Node ${name}: pod CIDR`, cidr, found));
  }

  #add(name: string, route: Omit<DesiredRoute, "source" | "isTaken">): void {
    const { desired, problem } = ownOrTaken(route, `pods of Node ${name}`, this.#surroundings);
    this.routes.set(routeKey(route.table, route.destination), desired);
    if (problem !== undefined) this.problems.push(problem);
    this.#report(name, route.destination, (other) => leadsTheSameWay(other, route));
  }
}

/**
 * Returns a desired route, and the problem where another program's route takes its place and leads elsewhere.
 *
 * @param whose what the route leads to, in words
 */
export function ownOrTaken(
  route: Omit<DesiredRoute, "source" | "isTaken">,
  whose: string,
  { takenBy, discarding, sources, links, options }: RouteSurroundings,
): { readonly desired: DesiredRoute; readonly problem: string | undefined } {
  const key = routeKey(route.table, route.destination);
  const [taken, blocking] = [takenBy.get(key), discarding.get(key)];
  // The kernel refuses a second route with the same destination and metric.
  const isTaken = taken !== undefined || blocking?.priority === ROUTE_PRIORITY;
  const desired = { ...route, source: sources[route.family], isTaken };
  if (blocking !== undefined) {
    const problem =
      `${whose}: another program's route (protocol ${blocking.protocol}) discards what is sent to ` +
      `${formatCidr(route.destination)}; delete it with \`ip route\` unless that is meant`;
    return { desired, problem };
  }
  if (taken === undefined || leadsTheSameWay(taken, route)) return { desired, problem: undefined };
  if (links.some(({ index, name }) => index === taken.outputInterface && name === options.bridge)) {
    const problem =
      `${whose}: pods of this node still have addresses of its earlier pod CIDR ${formatCidr(route.destination)}, or ` +
      `${options.bridge} has one; the route is added when they have gone: drain the node`;
    return { desired, problem };
  }
  const problem =
    `${whose}: another program's route (protocol ${taken.protocol}) to ${formatCidr(route.destination)} is in the way ` +
    "of ours and is not changed; delete it with `ip route` unless it leads there";
  return { desired, problem };
}

function leadsTheSameWay(other: Route, { gateway, device }: Omit<DesiredRoute, "source" | "isTaken">): boolean {
  return !other.hasOtherNextHop && other.gateway === gateway && other.outputInterface === device;
}
