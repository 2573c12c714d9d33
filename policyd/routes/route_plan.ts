import type { Address } from "../../kernel/ip/address.ts";
import { addressKey } from "../../kernel/ip/address_key.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { PODS_TABLE } from "./own_routes.ts";
import { type DesiredRoute, type PeerRoutes, peerRoutes } from "./peer_routes.ts";
import type { Peer } from "./peers.ts";
import { routeKey, type RouteSurroundings } from "./surroundings.ts";

/** The use of the tunnel's device and of rules by all routes of a plan. */
export interface PlanUse {
  /** Whether a route goes into the tunnel. */
  readonly hasTunnel: boolean;
  readonly hasIpv6InTunnel: boolean;
  /** The families with routes in the table for pods. */
  readonly podsTable: { readonly 4: boolean; readonly 6: boolean };
}

const NOTHING: PeerRoutes = { forwarding: [], neighbours: [], routes: [], problems: [], onLink: [], hasTwin: false };

/** The desired entries by node, so that a change of one node costs only the entries that lead to it. */
export class RoutePlan {
  readonly surroundings: RouteSurroundings;
  readonly #peers = new Map<string, PeerRoutes>();
  readonly #routes = new Map<string, DesiredRoute>();
  readonly #remotes = new Map<MacAddress, Address>();
  readonly #neighbours = new Map<number | bigint, MacAddress>();
  readonly #problemsOf = new Map<string, readonly string[]>();
  readonly #counts = { tunnel: 0, tunnel6: 0, pods4: 0, pods6: 0 };
  #hasTwins = false;

  constructor(surroundings: RouteSurroundings) {
    this.surroundings = surroundings;
  }

  /** Returns the entries of a node; empty where the node is unknown. */
  of(name: string): PeerRoutes {
    return this.#peers.get(name) ?? NOTHING;
  }

  peers(): Iterable<PeerRoutes> {
    return this.#peers.values();
  }

  /** The addresses of nodes that are reached without a router. */
  get onLink(): ReadonlySet<Address> {
    return new Set([...this.#peers.values()].flatMap(({ onLink }) => onLink));
  }

  delete(name: string): void {
    const { forwarding, neighbours, routes } = this.of(name);
    for (const route of routes) this.#routes.delete(routeKey(route.table, route.destination));
    for (const { mac } of forwarding) this.#remotes.delete(mac);
    for (const { address } of neighbours) this.#neighbours.delete(addressKey(address));
    for (const route of routes) this.#count(route, -1);
    this.#peers.delete(name);
    this.#problemsOf.delete(name);
  }

  /** Adds a node. Call {@link delete} first for a node that the plan has. */
  add(peer: Peer): void {
    const found = peerRoutes(peer, this.surroundings, (mac) => this.#remotes.get(mac));
    for (const route of found.routes) this.#routes.set(routeKey(route.table, route.destination), route);
    for (const { mac, remote } of found.forwarding) this.#remotes.set(mac, remote);
    for (const { address, mac } of found.neighbours) this.#neighbours.set(addressKey(address), mac);
    for (const route of found.routes) this.#count(route, 1);
    this.#peers.set(peer.name, found);
    this.#hasTwins ||= found.hasTwin;
    if (found.problems.length > 0) this.#problemsOf.set(peer.name, found.problems);
  }

  /** Whether two nodes had the same MAC address in the tunnel, so that entries depend on the order of nodes. */
  get hasTwins(): boolean {
    return this.#hasTwins;
  }

  get use(): PlanUse {
    const { tunnel, tunnel6, pods4, pods6 } = this.#counts;
    return { hasTunnel: tunnel > 0, hasIpv6InTunnel: tunnel6 > 0, podsTable: { 4: pods4 > 0, 6: pods6 > 0 } };
  }

  /** Problems that keep pods of a node from being reached, in words, by the node's name. */
  get problemsOf(): ReadonlyMap<string, readonly string[]> {
    return this.#problemsOf;
  }

  /** Returns the route with a key ({@link routeKey}). */
  route(key: string): DesiredRoute | undefined {
    return this.#routes.get(key);
  }

  /** Returns the node's address to which a MAC address of the tunnel leads. */
  remoteOf(mac: MacAddress): Address | undefined {
    return this.#remotes.get(mac);
  }

  /** Returns the MAC address of a next hop in the tunnel. */
  macOf(address: Address): MacAddress | undefined {
    return this.#neighbours.get(addressKey(address));
  }

  #count({ device, family, table }: DesiredRoute, change: 1 | -1): void {
    if (device === "tunnel") this.#counts.tunnel += change;
    if (device === "tunnel" && family === 6) this.#counts.tunnel6 += change;
    if (table === PODS_TABLE) this.#counts[`pods${family}`] += change;
  }
}
