import { type Address, familyOf, formatAddress, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, hostCidr } from "../../kernel/ip/cidr.ts";
import type { ForwardingEntry } from "../../kernel/route/forwarding_entry.ts";
import { MAIN_TABLE } from "../../kernel/route/route.ts";
import type { RoutingRule } from "../../kernel/route/rule.ts";
import { problemsIn } from "../../objects/nodes/node_verdict.ts";
import { linkLocalAddress } from "../../kernel/ip/mac.ts";
import { problemLine } from "../problems/problem.ts";
import { atOnce, each, type Slices } from "../lib/sliced_work.ts";
import type { KernelState, NodeLink, Tunnel } from "./route_kernel/kernel_state.ts";
import { LEAST_IPV6_MTU } from "./pod_mtu.ts";
import { PODS_TABLE, RULE_PRIORITY } from "./own_routes.ts";
import { TUNNEL, tunnelOverhead } from "./tunnel.ts";
import { addressConflicts, obstacleProblems, ownObstacles } from "./obstacles.ts";
import { type DesiredNeighbour, type DesiredRoute, hasFamily, ownOrTaken } from "./peer_routes.ts";
import type { Peers } from "./peers.ts";
import { RoutePlan } from "./route_plan.ts";
import {
  LOOPBACK_LINK,
  type RouteOptions,
  type RouteSurroundings,
  surroundingsOf,
  withoutPrivate,
} from "./surroundings.ts";

/** The desired state of the kernel. */
export interface Desired {
  readonly tunnel: Tunnel | undefined;
  readonly forwarding: readonly ForwardingEntry[];
  readonly neighbours: readonly DesiredNeighbour[];
  readonly routes: readonly DesiredRoute[];
  readonly rules: readonly RoutingRule[];
  /** MTU of the pods, in bytes; undefined where no interface has the first InternalIP of this node's Node object. */
  readonly podMtu: number | undefined;
  readonly problems: readonly string[];
}

/** The desired state without the tunnel's device. */
export type DesiredEntries = Pick<Desired, "forwarding" | "neighbours" | "routes" | "rules">;

/** The part of the desired state that does not belong to a single peer node. */
export type Frame = Pick<Desired, "tunnel" | "routes" | "rules" | "podMtu" | "problems">;

const SCOPE_UNIVERSE = 0;

/**
 * Returns the desired routes to other nodes' pods (POD-21) and to the Services' ranges (SVC-19).
 *
 * The tunnel goes between the nodes' first addresses and carries both families.
 *
 * @returns `unknown` with the reason where the desired state cannot be determined; then nothing may change
 */
export function desiredRoutes(
  peers: Peers,
  serviceCidrs: readonly Cidr[],
  options: RouteOptions,
  state: KernelState,
): Desired | { readonly unknown: string } {
  const plan = atOnce(planRoutes(peers, options, state));
  if ("unknown" in plan) return plan;
  const frame = frameOf(plan, serviceCidrs);
  const problems = [...peers.problems, ...problemsIn(plan), ...frame.problems];
  return { ...frame, ...desiredEntries(plan, frame), problems };
}

/** Returns the desired state without the tunnel's device. */
export function desiredEntries(plan: RoutePlan, frame: Frame): DesiredEntries {
  const single = [...plan.peers()];
  return {
    forwarding: single.flatMap(({ forwarding }) => forwarding),
    neighbours: single.flatMap(({ neighbours }) => neighbours),
    routes: [...single.flatMap(({ routes }) => routes), ...frame.routes],
    rules: frame.rules,
  };
}

/** Plans what leads to the pods of all other nodes. @returns `unknown` as {@link desiredRoutes} does */
export function* planRoutes(
  { own: judged, others }: Pick<Peers, "own" | "others">,
  options: RouteOptions,
  state: KernelState,
): Slices<RoutePlan | { readonly unknown: string }> {
  const own = judged && withoutPrivate(judged, others, state);
  if (own === undefined && others.length > 0) return { unknown: "no Node object has this node's name" };
  const unused = (judged?.all ?? []).filter((address) => own?.all.includes(address) === false);
  const surroundings = { ...surroundingsOf(own, options, state), unused };
  if (own?.primary !== undefined && surroundings.underlay === undefined && others.length > 0) {
    return { unknown: `InternalIP ${formatAddress(own.primary)} of this node is on no interface that is up` };
  }
  const plan = new RoutePlan(surroundings);
  yield* each(others, (peer) => plan.add(peer));
  return plan;
}

/** Returns what a plan needs, and the part of the desired state that does not depend on the other nodes. */
export function frameOf(plan: RoutePlan, serviceCidrs: readonly Cidr[]): Frame {
  const { surroundings, use } = plan;
  const problems: string[] = [...ownProblems(surroundings)];
  const routes = serviceCidrs
    .filter((cidr) => hasFamily(surroundings, cidrFamily(cidr)))
    .flatMap((cidr) => routeToServices(cidr, surroundings, problems));
  return {
    tunnel: use.hasTunnel ? tunnelOf(plan, problems) : undefined,
    routes,
    rules: FAMILIES.filter((family) => use.podsTable[family]).map((family) => ({
      family,
      inputInterface: surroundings.options.bridge,
      table: PODS_TABLE,
      priority: RULE_PRIORITY,
    })),
    podMtu: surroundings.podMtu,
    problems,
  };
}

/** Returns problems with this node's addresses, and with routes of other programs that take its pods' packets away. */
function ownProblems(surroundings: RouteSurroundings): readonly string[] {
  const { own, links, addresses, options, containment, unused = [] } = surroundings;
  const bridge = links.find(({ name }) => name === options.bridge)?.index;
  return [
    ...unused.map(
      (address) =>
        `Node ${own?.name}: InternalIP ${formatAddress(address)} is on a link that only this node has; the address is ` +
        `${own?.all.map(formatAddress).join(", ")}: name it to the kubelet with --node-ip, since other nodes cannot know`,
    ),
    ...addressConflicts(own?.podCidrs ?? [], links, addresses).map(({ cidr, words, look }) =>
      problemLine(
        "pod-networks",
        `pods of this node: pod CIDR ${formatCidr(cidr)} overlaps with ${words}, so that packets for one of the two go to ` +
          `the other; take the address away (${look}), or give the cluster another pod CIDR`,
      ),
    ),
    ...(own?.podCidrs ?? []).flatMap((cidr) =>
      obstacleProblems("pods of this node", cidr, ownObstacles(containment, cidr, bridge)),
    ),
  ];
}

/**
 * Returns the route to a range of Services. The node's own packet to a Service's address is translated only after the
 * kernel has found some route for it (SVC-19). The route must not use the bridge: the interface is looked up before the
 * translation, so rules would take the packet for one to a pod of this node.
 */
function routeToServices(cidr: Cidr, surroundings: RouteSurroundings, problems: string[]): readonly DesiredRoute[] {
  // Addresses of other nodes in the range have already been refused and reported, since Services need their range.
  const { own, foreign, underlay } = surroundings;
  const has = (address: Address | undefined): boolean => address !== undefined && cidrContains(cidr, address);
  if (own !== undefined && (has(own.addresses[4]) || has(own.addresses[6]))) {
    problems.push(`Service range ${formatCidr(cidr)}: has an address of Node ${own.name}; no route to it`);
    return [];
  }
  if (foreign.ofAll(cidr) !== undefined) return [];
  const device = (underlay ?? anyUplink(surroundings))?.index;
  if (device === undefined) {
    problems.push(`Service range ${formatCidr(cidr)}: no interface to route it to is up`);
    return [];
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
  return [desired];
}

function anyUplink({ links, addresses, options }: RouteSurroundings): NodeLink | undefined {
  const withAddress = new Set(addresses.filter(({ scope }) => scope === SCOPE_UNIVERSE).map(({ index }) => index));
  const others: readonly string[] = [LOOPBACK_LINK, TUNNEL.name, options.bridge];
  return links.find(({ index, name, up }) => up && withAddress.has(index) && !others.includes(name));
}

function tunnelOf({ surroundings, use }: RoutePlan, problems: string[]): Tunnel | undefined {
  const { own, ownMac: mac, underlay, hasIpv6: isIpv6On, sources } = surroundings;
  const local = own?.primary;
  if (local === undefined || mac === undefined) return undefined;
  const outer = familyOf(local);
  const mtu = (underlay?.mtu ?? 0) - tunnelOverhead(outer);
  if (use.hasIpv6InTunnel && mtu < LEAST_IPV6_MTU) {
    problems.push(
      `${TUNNEL.name}: MTU ${mtu} is too small for IPv6, which needs ${LEAST_IPV6_MTU}: ` +
        `give ${underlay?.name} an MTU of ${LEAST_IPV6_MTU + tunnelOverhead(outer)} or more`,
    );
  }
  const hasIpv6 = isIpv6On && mtu >= LEAST_IPV6_MTU;
  const addresses = FAMILIES.flatMap((family) => {
    const address = family === 4 || hasIpv6 ? sources[family] : undefined;
    return address === undefined ? [] : [hostCidr(address)];
  });
  const inner: readonly Cidr[] = hasIpv6 ? [{ address: linkLocalAddress(mac), prefixLength: 64 }] : [];
  return { local, mac, mtu, addresses: [...inner, ...addresses] };
}
