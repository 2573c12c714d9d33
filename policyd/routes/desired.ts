import type { Address, Family } from "../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains, cidrFamily, formatCidr, hostCidr, networkAddress } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import type { ForwardingEntry } from "../../kernel/route/forwarding_entry.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { Route } from "../../kernel/route/route.ts";
import type { RoutingRule } from "../../kernel/route/rule.ts";
import { doOverlap } from "../cluster/judged_nodes.ts";
import { linkLocalAddress } from "../node/attachment_elements.ts";
import type { KernelState, NodeLink, OwnRoute, Tunnel } from "./kernel_state.ts";
import type { Encapsulation } from "./mtu.ts";
import { podMtu } from "./mtu.ts";
import { isOurs, PODS_TABLE, RULE_PRIORITY, TUNNEL, tunnelOverhead } from "./names.ts";
import type { Peer, Peers } from "./peers.ts";
import { RouteLookup } from "./route_lookup.ts";
import { tunnelMac } from "./tunnel_address.ts";

export interface RouteOptions {
  readonly encapsulation: Encapsulation;
  /** The bridge the pods are on. */
  readonly bridge: string;
}

/** A route of ours whose device may be the tunnel, which may not be there yet. */
export type DesiredRoute = Omit<OwnRoute, "outputInterface"> & {
  /** The index of a link, or the tunnel. */
  readonly device: number | "tunnel";
  /** Whether somebody else has a route to the same destination, so that ours must not be put there. */
  readonly isTaken: boolean;
};

/** What the kernel is to have. */
export interface Desired {
  readonly tunnel: Tunnel | undefined;
  readonly forwarding: readonly ForwardingEntry[];
  readonly neighbours: readonly { readonly address: Address; readonly mac: MacAddress }[];
  readonly routes: readonly DesiredRoute[];
  readonly rules: readonly RoutingRule[];
  /** Of pods' packets, in bytes; undefined where this node's Node object has no InternalIP that an interface has. */
  readonly podMtu: number | undefined;
  readonly problems: readonly string[];
}

const SCOPE_UNIVERSE = 0;

/** The kernel's own routes, which come with an interface's address (RTPROT_KERNEL, linux/rtnetlink.h). */
const PROTOCOL_KERNEL = 2;

/** An address on it is the node's, but no packet goes there: its MTU says nothing. */
const LOOPBACK = "lo";

/** Below this the kernel takes IPv6 from a device (RFC 8200, section 5). */
const LEAST_IPV6_MTU = 1280;

/**
 * The routes to other nodes' pods (POD-21) and to the Services' ranges (SVC-19) that this node is to have now.
 *
 * A pod CIDR is routed to its node's address of the same family where the node's routes say that this is on the link,
 * otherwise into the tunnel, which goes between the nodes' first addresses and carries both families.
 *
 * @returns undefined with the reason where nothing can be told and so nothing may change
 */
export function desiredRoutes(
  peers: Peers,
  serviceCidrs: readonly Cidr[],
  options: RouteOptions,
  state: KernelState,
): Desired | { readonly unknown: string } {
  const { own, others } = peers;
  if (own === undefined && others.length > 0) return { unknown: "no Node object has this node's name" };
  const primary = own?.primary;
  const underlay = primary === undefined ? undefined : underlayOf(primary, state);
  if (primary !== undefined && underlay === undefined && others.length > 0) {
    return { unknown: `InternalIP ${formatAddress(primary)} of this node is on no interface that is up` };
  }
  return new Builder(peers, options, state, underlay).build(serviceCidrs);
}

class Builder {
  readonly #peers: Peers;
  readonly #options: RouteOptions;
  readonly #state: KernelState;
  readonly #underlay: NodeLink | undefined;
  /** Others' routes: where packets would go without ours. */
  readonly #foreign: RouteLookup;
  readonly #takenBy: ReadonlyMap<string, Route>;
  /** The networks this node is on. */
  readonly #connected: readonly Cidr[];
  /** This node's addresses, where an interface has them. */
  readonly #sources: Readonly<Record<Family, Address | undefined>>;
  readonly #forwarding = new Map<MacAddress, ForwardingEntry>();
  readonly #neighbours = new Map<Address, MacAddress>();
  readonly #routes = new Map<string, DesiredRoute>();
  readonly #problems: string[];

  constructor(peers: Peers, options: RouteOptions, state: KernelState, underlay: NodeLink | undefined) {
    this.#peers = peers;
    this.#options = options;
    this.#state = state;
    this.#underlay = underlay;
    const foreign = state.routes.filter((route) => route.table === MAIN_TABLE && !isOurs(route));
    this.#foreign = new RouteLookup(foreign);
    this.#takenBy = new Map(
      foreign.flatMap((route) =>
        route.destination === undefined ? [] : [[routeKey(MAIN_TABLE, route.destination), route] as const],
      ),
    );
    this.#connected = foreign.flatMap(({ destination, gateway, hasOtherNextHop, protocol }) =>
      destination !== undefined && gateway === undefined && !hasOtherNextHop && protocol === PROTOCOL_KERNEL
        ? [destination]
        : [],
    );
    this.#problems = [...peers.problems];
    const sourceOf = (family: Family): Address | undefined => {
      const own = peers.own?.addresses[family];
      return own !== undefined && linksWith(own, state).length > 0 ? own : undefined;
    };
    this.#sources = { 4: sourceOf(4), 6: sourceOf(6) };
  }

  build(serviceCidrs: readonly Cidr[]): Desired {
    for (const peer of this.#peers.others) {
      for (const cidr of peer.podCidrs) if (this.#hasFamily(cidrFamily(cidr))) this.#routeTo(peer, cidr);
    }
    for (const cidr of serviceCidrs) if (this.#hasFamily(cidrFamily(cidr))) this.#routeToServices(cidr);
    const routes = [...this.#routes.values()];
    const inPodsTable = ([4, 6] as const).filter((family) =>
      routes.some((route) => route.table === PODS_TABLE && route.family === family),
    );
    return {
      tunnel: this.#tunnel(routes),
      forwarding: [...this.#forwarding.values()],
      neighbours: [...this.#neighbours].map(([address, mac]) => ({ address, mac })),
      routes,
      rules: inPodsTable.map((family) => ({
        family,
        inputInterface: this.#options.bridge,
        table: PODS_TABLE,
        priority: RULE_PRIORITY,
      })),
      podMtu: this.#podMtu(),
      problems: this.#problems,
    };
  }

  #podMtu(): number | undefined {
    const primary = this.#peers.own?.primary;
    if (primary === undefined || this.#underlay === undefined) return undefined;
    return podMtu(this.#options.encapsulation, this.#underlay.mtu, familyOf(primary));
  }

  #hasFamily(family: Family): boolean {
    return family === 4 || this.#state.hasIpv6;
  }

  #routeTo(peer: Peer, cidr: Cidr): void {
    const family = cidrFamily(cidr);
    const network = this.#connected.find((one) => doOverlap(one, cidr) && formatCidr(one) !== formatCidr(cidr));
    if (network !== undefined) {
      this.#problems.push(
        `Node ${peer.name}: pod CIDR ${formatCidr(cidr)} overlaps ${formatCidr(network)}, a network this node is on; it gets no route`,
      );
      return;
    }
    const gateway = peer.addresses[family];
    const { encapsulation } = this.#options;
    const device = encapsulation === "always" || gateway === undefined ? undefined : this.#onLink(gateway);
    if (device !== undefined) {
      this.#add({ table: MAIN_TABLE, family, destination: cidr, gateway, device, onLink: false }, peer.name);
    } else if (encapsulation !== "never") {
      this.#tunnelTo(peer, cidr);
    } else if (gateway === undefined) {
      this.#problems.push(`Node ${peer.name}: no InternalIP of IPv${family}; no route to its pods ${formatCidr(cidr)}`);
    }
    // Otherwise packets go the way of all others: with "never" the network behind the router is told to know pods.
  }

  /** The device by which an address is reached without a router. */
  #onLink(address: Address): number | undefined {
    const route = this.#foreign.of(address);
    if (route === undefined || route.gateway !== undefined || route.hasOtherNextHop) return undefined;
    const link = this.#state.links.find(({ index }) => index === route.outputInterface);
    const isDirect = link !== undefined && link.up && link.name !== this.#options.bridge && link.name !== TUNNEL.name;
    return isDirect ? link.index : undefined;
  }

  #tunnelTo(peer: Peer, cidr: Cidr): void {
    const local = this.#peers.own?.primary;
    const remote = peer.primary;
    const lack = (why: string): void => {
      this.#problems.push(`Node ${peer.name}: ${why}; no route to its pods ${formatCidr(cidr)}`);
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
    const mac = tunnelMac(remote);
    const twin = this.#forwarding.get(mac)?.remote;
    // A hash of 46 bits: who may choose an IPv6 address can find one with another node's.
    if (mac === tunnelMac(local) || (twin !== undefined && twin !== remote)) {
      return lack(
        `the MAC address of its InternalIP ${formatAddress(remote)} is another node's too; give it another one`,
      );
    }
    const node = peer.addresses[family];
    // IPv6 takes no gateway that another device's route has, so there it is the other end's link-local address.
    const gateway = family === 6 ? linkLocalAddress(mac) : (node ?? networkAddress(cidr));
    this.#forwarding.set(mac, { mac, remote });
    this.#neighbours.set(gateway, mac);
    const way = { family, gateway, device: "tunnel", onLink: family === 4 } as const;
    this.#add({ ...way, table: MAIN_TABLE, destination: cidr }, peer.name);
    if (node === undefined) return;
    const host = hostCidr(node);
    this.#routes.set(routeKey(PODS_TABLE, host), {
      ...way,
      table: PODS_TABLE,
      destination: host,
      source: undefined,
      isTaken: false,
    });
  }

  /**
   * A packet of the node to a Service's address is translated once it has found a route, whichever (SVC-19). Not by the
   * bridge: rules would take it for one to a pod of this node, since the interface is looked up before the translation.
   */
  #routeToServices(cidr: Cidr): void {
    // Others' addresses in it have been refused by then: they say so themselves, and Services need their range.
    const { own } = this.#peers;
    if (
      own !== undefined &&
      [own.addresses[4], own.addresses[6]].some((a) => a !== undefined && cidrContains(cidr, a))
    ) {
      this.#problems.push(`Service range ${formatCidr(cidr)}: has an address of Node ${own.name}; no route to it`);
      return;
    }
    if (this.#foreign.ofAll(cidr) !== undefined) return;
    const device = (this.#underlay ?? this.#anyUplink())?.index;
    if (device === undefined) {
      this.#problems.push(`Service range ${formatCidr(cidr)}: no interface to route it to is up`);
      return;
    }
    const family = cidrFamily(cidr);
    this.#add({ table: MAIN_TABLE, family, destination: cidr, gateway: undefined, device, onLink: false }, undefined);
  }

  #anyUplink(): NodeLink | undefined {
    const { links, addresses } = this.#state;
    const withAddress = new Set(addresses.filter(({ scope }) => scope === SCOPE_UNIVERSE).map(({ index }) => index));
    const others: readonly string[] = [LOOPBACK, TUNNEL.name, this.#options.bridge];
    return links.find(({ index, name, up }) => up && withAddress.has(index) && !others.includes(name));
  }

  /** @param node whose pods it leads to; undefined for Services */
  #add(route: Omit<DesiredRoute, "source" | "isTaken">, node: string | undefined): void {
    const key = routeKey(route.table, route.destination);
    if (this.#routes.has(key)) return;
    const taken = this.#takenBy.get(key);
    this.#routes.set(key, { ...route, source: this.#sources[route.family], isTaken: taken !== undefined });
    if (taken === undefined || leadsTheSameWay(taken, route)) return;
    const whose = node === undefined ? "Services" : `pods of Node ${node}`;
    this.#problems.push(
      `${whose}: another program's route (protocol ${taken.protocol}) to ${formatCidr(route.destination)} is in the way ` +
        "of ours and left alone; delete it with `ip route` unless it leads there",
    );
  }

  #tunnel(routes: readonly DesiredRoute[]): Tunnel | undefined {
    const local = this.#peers.own?.primary;
    if (local === undefined || !routes.some(({ device }) => device === "tunnel")) return undefined;
    const outer = familyOf(local);
    const mtu = (this.#underlay?.mtu ?? 0) - tunnelOverhead(outer);
    const hasIpv6Pods = routes.some(({ family, device }) => family === 6 && device === "tunnel");
    if (hasIpv6Pods && mtu < LEAST_IPV6_MTU) {
      this.#problems.push(
        `${TUNNEL.name}: MTU ${mtu} is too small for IPv6, which needs ${LEAST_IPV6_MTU}: ` +
          `give ${this.#underlay?.name} an MTU of ${LEAST_IPV6_MTU + tunnelOverhead(outer)} or more`,
      );
    }
    const mac = tunnelMac(local);
    const hasIpv6 = this.#state.hasIpv6 && mtu >= LEAST_IPV6_MTU;
    const own = ([4, 6] as const).flatMap((family) => {
      const address = family === 4 || hasIpv6 ? this.#sources[family] : undefined;
      return address === undefined ? [] : [hostCidr(address)];
    });
    const inner: readonly Cidr[] = hasIpv6 ? [{ address: linkLocalAddress(mac), prefixLength: 64 }] : [];
    return { local, mac, mtu, addresses: [...inner, ...own] };
  }
}

/** Identifies a route of ours: there is one for each destination of a table. */
export function routeKey(table: number, destination: Cidr): string {
  return `${table} ${formatCidr(destination)}`;
}

function leadsTheSameWay(other: Route, { gateway, device }: Omit<DesiredRoute, "source" | "isTaken">): boolean {
  return !other.hasOtherNextHop && other.gateway === gateway && other.outputInterface === device;
}

/** The links that are up and have an address; the tunnel, which has a copy of it, aside. */
function linksWith(address: Address, { addresses, links }: KernelState): readonly NodeLink[] {
  const indexes = addresses.filter((one) => one.address.address === address).map(({ index }) => index);
  return links.filter(({ index, name, up }) => up && name !== TUNNEL.name && indexes.includes(index));
}

/** The link by which packets leave with an address: that which has it, and where loopback alone has it, the default route's. */
function underlayOf(address: Address, state: KernelState): NodeLink | undefined {
  const having = linksWith(address, state);
  const link = having.find(({ name }) => name !== LOOPBACK);
  if (link !== undefined || having.length === 0) return link;
  const family = familyOf(address);
  const defaults = state.routes
    .filter((route) => route.table === MAIN_TABLE && route.family === family && route.destination === undefined)
    .sort((a, b) => a.priority - b.priority);
  const indexes = defaults.map(({ outputInterface }) => outputInterface);
  return state.links.find(({ index, name, up }) => up && name !== LOOPBACK && index === indexes[0]);
}
