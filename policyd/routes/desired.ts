import {
  type Address,
  type Family,
  familyOf,
  formatAddress,
  FAMILIES,
  SMALLEST_IPV6_MTU,
} from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, hostCidr } from "../../kernel/ip/cidr.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { RoutingRule } from "../../kernel/route/rule.ts";
import { linkLocalAddress, type MacAddress } from "../../kernel/ip/mac.ts";
import { problemLine } from "../problems/problem.ts";
import { each, type Slices } from "../lib/sliced_work.ts";
import type { KernelState, NodeLink, Tunnel } from "./route_kernel/kernel_state.ts";
import { isOurs, PODS_TABLE, RULE_PRIORITY } from "./own_routes.ts";
import { TUNNEL, tunnelOverhead } from "./tunnel.ts";
import { addressConflicts, obstacleProblems, ownObstacles, peerObstacles } from "./obstacles.ts";
import { type DesiredNeighbour, type DesiredRoute, hasFamily, ownOrTaken, PeerRoutes } from "./peer_routes.ts";
import {
  addressOf,
  type ClusterNodes,
  lackOf,
  LOOPBACK_LINK,
  routeKey,
  type RouteOptions,
  type RouteSurroundings,
  surroundingsOf,
  withoutPrivate,
} from "./surroundings.ts";

/** The desired state of the kernel. */
export interface Desired {
  readonly surroundings: RouteSurroundings;
  readonly tunnel: Tunnel | undefined;
  /** The node's address to which each MAC address of the tunnel leads. */
  readonly forwarding: ReadonlyMap<MacAddress, Address>;
  /** By the key of the address. */
  readonly neighbours: ReadonlyMap<number | bigint, DesiredNeighbour>;
  /** By {@link routeKey}. */
  readonly routes: ReadonlyMap<string, DesiredRoute>;
  readonly rules: readonly RoutingRule[];
  /** The addresses of nodes that are reached without a router. */
  readonly onLink: ReadonlySet<Address>;
  readonly problems: readonly string[];
}

const SCOPE_UNIVERSE = 0;

/**
 * Returns the desired routes to other nodes' pods (POD-21) and to the Services' ranges (SVC-19).
 *
 * The tunnel goes between the nodes' first addresses and carries both families.
 *
 * @returns `unknown` with the reason where the desired state cannot be determined; then nothing may change
 */
export function* desiredRoutes(
  { own: judged, others }: ClusterNodes,
  serviceCidrs: readonly Cidr[],
  options: RouteOptions,
  state: KernelState,
): Slices<Desired | { readonly unknown: string }> {
  const own = judged && withoutPrivate(judged, others, state);
  const hasPeers = arePeersKnown(others, state);
  if (own === undefined && hasPeers) return { unknown: "no Node object has this node's name" };
  const unused = (judged?.addresses ?? []).filter((address) => own?.addresses.includes(address) === false);
  const surroundings = surroundingsOf(own, options, state);
  const [primary] = own?.addresses ?? [];
  if (primary !== undefined && surroundings.underlay === undefined && hasPeers) {
    const why = lackOf(primary, state) ?? "is on no interface that is up";
    return { unknown: `InternalIP ${formatAddress(primary)} of this node ${why}` };
  }
  const peers = new PeerRoutes(surroundings);
  const { forwarding, neighbours, routes, onLink, problems } = peers;
  yield* each(others, (peer) => peers.add(peer));
  const families = new Set<Family>();
  const tunnelled = new Set<Family>();
  yield* each(routes.values(), ({ device, family, table }) => {
    if (device === "tunnel") tunnelled.add(family);
    if (table === PODS_TABLE) families.add(family);
  });
  problems.push(
    ...ownProblems(surroundings, unused),
    ...(others.length === 0 ? [] : missingAddresses(surroundings, state)),
  );
  const ranges = serviceCidrs.filter((cidr) => hasFamily(surroundings, cidrFamily(cidr)));
  for (const cidr of ranges) addRouteToServices(cidr, surroundings, peers);
  return {
    surroundings,
    tunnel: tunnelled.size > 0 ? tunnelOf(surroundings, tunnelled.has(6), problems) : undefined,
    forwarding,
    neighbours,
    routes,
    rules: FAMILIES.filter((family) => families.has(family)).map((family) => ({
      family,
      inputInterface: options.bridge,
      table: PODS_TABLE,
      priority: RULE_PRIORITY,
    })),
    onLink,
    problems,
  };
}

/** Whether there are other nodes, or routes of ours to some. Only these have a gateway: those to Services have none. */
function arePeersKnown(others: ClusterNodes["others"], { routes }: KernelState): boolean {
  return others.length > 0 || routes.some((route) => isOurs(route) && route.gateway !== undefined);
}

/**
 * Returns problems with this node's addresses, and with routes of other programs that take its pods' packets away.
 *
 * @param unused this node's addresses on links that only this node has
 */
function ownProblems(surroundings: RouteSurroundings, unused: readonly Address[]): readonly string[] {
  const { own, links, addresses, options, obstacles, underlay } = surroundings;
  const bridge = links.find(({ name }) => name === options.bridge)?.index;
  return [
    ...unused.map(
      (address) =>
        `Node ${own?.name}: InternalIP ${formatAddress(address)} is on a link that only this node has; the address is ` +
        `${own?.addresses.map(formatAddress).join(", ")}: name it to the kubelet with --node-ip, since other nodes cannot know`,
    ),
    ...(underlay?.vrf === undefined
      ? []
      : [
          `Node ${own?.name}: packets between nodes leave by ${underlay.name} in the VRF ${underlay.vrf}, and pods are in none: ` +
            `nothing gets from one to the other; take the link out (ip link set ${underlay.name} nomaster), or name an ` +
            "address of another link to the kubelet with --node-ip",
        ]),
    ...addressConflicts(own?.podCidrs ?? [], links, addresses).map(({ cidr, words, look }) =>
      problemLine(
        "pod-networks",
        `pods of this node: pod CIDR ${formatCidr(cidr)} overlaps with ${words}, so that packets for one of the two go to ` +
          `the other; take the address away (${look}), or give the cluster another pod CIDR`,
      ),
    ),
    ...(own?.podCidrs ?? []).flatMap((cidr) =>
      obstacleProblems("pods of this node: pod CIDR", cidr, ownObstacles(obstacles, cidr, bridge)),
    ),
  ];
}

/** Returns the problems of addresses that this node lacks, and to which other nodes may send without the tunnel. */
function missingAddresses(surroundings: RouteSurroundings, state: KernelState): readonly string[] {
  const { own, options } = surroundings;
  return FAMILIES.flatMap((family) => {
    const address = options.encapsulation === "always" ? undefined : addressOf(own, family);
    if (address === undefined || !hasFamily(surroundings, family)) return [];
    const why = lackOf(address, state);
    if (why === undefined) return [];
    return [
      `Node ${own?.name}: InternalIP ${formatAddress(address)} ${why}: nodes without a router between send packets for ` +
        "pods here to it, and they are lost; give it to a link (ip address), or name another to the kubelet with --node-ip",
    ];
  });
}

/**
 * Adds the route to a range of Services. The node's own packet to a Service's address is translated only after the
 * kernel has found some route for it (SVC-19). The route must not use the bridge: the interface is looked up before the
 * translation, so rules would take the packet for one to a pod of this node.
 */
function addRouteToServices(
  cidr: Cidr,
  surroundings: RouteSurroundings,
  { routes, problems }: Pick<PeerRoutes, "routes" | "problems">,
): void {
  // Addresses of other nodes in the range have already been refused and reported, since Services need their range.
  const { own, foreign, obstacles, underlay } = surroundings;
  const address = addressOf(own, cidrFamily(cidr));
  if (own !== undefined && address !== undefined && cidrContains(cidr, address)) {
    problems.push(`Service range ${formatCidr(cidr)}: has an address of Node ${own.name}; no route to it`);
    return;
  }
  // Only routes that discard packets are obstacles: a packet that is translated takes another route than this one.
  problems.push(
    ...obstacleProblems(
      "Service range",
      cidr,
      peerObstacles(obstacles, cidr, () => true),
    ),
  );
  if (foreign.find(cidr.address, cidr.prefixLength)?.discards === false) return;
  const device = (underlay ?? anyUplink(surroundings))?.index;
  if (device === undefined) {
    problems.push(`Service range ${formatCidr(cidr)}: no interface to route it to is up`);
    return;
  }
  const route = {
    table: MAIN_TABLE,
    family: cidrFamily(cidr),
    destination: cidr,
    gateway: undefined,
    device,
    onLink: false,
  };
  const { desired, problem } = ownOrTaken(route, "Services", surroundings);
  if (problem !== undefined) problems.push(problem);
  routes.set(routeKey(desired.table, desired.destination), desired);
}

function anyUplink({ links, addresses, options }: RouteSurroundings): NodeLink | undefined {
  const withAddress = new Set(addresses.filter(({ scope }) => scope === SCOPE_UNIVERSE).map(({ index }) => index));
  const others: readonly string[] = [LOOPBACK_LINK, TUNNEL.name, options.bridge];
  return links.find(({ index, name, up }) => up && withAddress.has(index) && !others.includes(name));
}

function tunnelOf(
  { own, ownMac: mac, underlay, hasIpv6: isIpv6On, sources }: RouteSurroundings,
  isIpv6Inside: boolean,
  problems: string[],
): Tunnel | undefined {
  const local = own?.addresses[0];
  if (local === undefined || mac === undefined) return undefined;
  const outer = familyOf(local);
  const mtu = (underlay?.mtu ?? 0) - tunnelOverhead(outer);
  if (isIpv6Inside && mtu < SMALLEST_IPV6_MTU) {
    problems.push(
      `${TUNNEL.name}: MTU ${mtu} is too small for IPv6, which needs ${SMALLEST_IPV6_MTU}: ` +
        `give ${underlay?.name} an MTU of ${SMALLEST_IPV6_MTU + tunnelOverhead(outer)} or more`,
    );
  }
  const hasIpv6 = isIpv6On && mtu >= SMALLEST_IPV6_MTU;
  const addresses = FAMILIES.flatMap((family) => {
    const address = family === 4 || hasIpv6 ? sources[family] : undefined;
    return address === undefined ? [] : [hostCidr(address)];
  });
  const inner: readonly Cidr[] = hasIpv6 ? [{ address: linkLocalAddress(mac), prefixLength: 64 }] : [];
  return { local, mac, mtu, addresses: [...inner, ...addresses] };
}
