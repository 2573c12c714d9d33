import { HOST_INTERFACE_PREFIX } from "../../../../attachment/names_and_macs.ts";
import { type Address, addressPlus, type Family, familyOf } from "../../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, networkAddress } from "../../../../kernel/ip/cidr.ts";
import type { SampleLink } from "../../../../kernel/nftables/foreign/sample_packet.ts";
import { MAIN_TABLE, type Route, ROUTE_PROTOCOL } from "../../../../kernel/route/route.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import { seen } from "../diagnose.ts";
import type { NodeFacts } from "../facts.ts";

/** Where pods' packets go on a node, in one family. */
export interface FlowSurroundings {
  readonly family: Family;
  readonly bridge: SampleLink;
  /** A pod's bridge port; a possible name where there is none yet. */
  readonly port: SampleLink;
  /** The addresses of two pods of the node; possible ones where there are none yet. */
  readonly pods: readonly [Address, Address];
  /** The node's address on the bridge, at which pods reach it. */
  readonly gateway: Address | undefined;
  /** The link of the default route, and the node's address on it. */
  readonly uplink: SampleLink | undefined;
  readonly nodeAddress: Address | undefined;
  /** Pods of other nodes: one for each link that leads to any. */
  readonly remotes: readonly { readonly pod: Address; readonly link: SampleLink }[];
  /** The ends of the tunnel's own packets, where they have this family. */
  readonly tunnel: { readonly own: Address; readonly other: Address } | undefined;
  /** Returns the link by which the node sends to an address, from the main table. */
  readonly linkTo: (address: Address) => SampleLink | undefined;
}

/** Returns the surroundings in each family in which the node has pods or a range for them. */
export function flowSurroundings(facts: NodeFacts): readonly FlowSurroundings[] {
  return ([4, 6] as const).flatMap((family) => surroundingsOf(facts, family) ?? []);
}

function surroundingsOf(facts: NodeFacts, family: Family): FlowSurroundings | undefined {
  const pods = podAddresses(facts, family);
  if (pods === undefined) return undefined;
  const links: readonly SampleLink[] = seen(facts.links) ?? [];
  const byIndex = new Map(links.map(({ index, name }) => [index, { index, name }]));
  const routes = (seen(facts.routes) ?? []).filter((route) => route.family === family && route.table === MAIN_TABLE);
  const linkOf = (route: Route | undefined): SampleLink | undefined =>
    route?.outputInterface === undefined ? undefined : byIndex.get(route.outputInterface);
  const linkTo = (address: Address): SampleLink | undefined => linkOf(bestRoute(routes, address));
  const name = facts.place.bridge;
  const uplink = linkOf(bestOf(routes.filter(({ destination }) => destination === undefined)));
  return {
    family,
    bridge: links.find((one) => one.name === name) ?? { index: 0, name },
    port: links.find((one) => one.name.startsWith(HOST_INTERFACE_PREFIX)) ?? {
      index: 0,
      name: `${HOST_INTERFACE_PREFIX}000000000000`,
    },
    pods,
    gateway: addressOn(facts, name, family),
    uplink,
    nodeAddress: uplink === undefined ? undefined : addressOn(facts, uplink.name, family),
    remotes: remotePods(routes, linkOf),
    tunnel: tunnelEnds(facts, routes, family),
    linkTo,
  };
}

/** Returns addresses of attached pods, or else the first ones of the pods' range. */
function podAddresses(
  { records, network, bootId, place }: NodeFacts,
  family: Family,
): readonly [Address, Address] | undefined {
  const boot = seen(bootId);
  const attached = (seen(records)?.records ?? [])
    .filter((record) => record.bridge === place.bridge && (boot === undefined || record.bootId === boot))
    .flatMap(({ addresses }) => addresses.map(({ address }) => address))
    .filter((address) => familyOf(address) === family);
  const file = seen(network);
  const ranges = file?.kind === "network" ? file.ranges.flat() : [];
  const range = ranges.find(({ subnet }) => cidrFamily(subnet) === family);
  const [first = addressIn(range?.subnet, 2n), second] = attached;
  if (first === undefined) return undefined;
  return [first, second ?? addressPlus(first, 1n) ?? first];
}

function addressIn(cidr: Cidr | undefined, distance: bigint): Address | undefined {
  return cidr === undefined ? undefined : addressPlus(networkAddress(cidr), distance);
}

/** Returns a global address of a link. */
function addressOn({ addresses }: NodeFacts, link: string, family: Family): Address | undefined {
  return (seen(addresses) ?? [])
    .filter((one) => one.link === link && cidrFamily(one.address) === family)
    .map(({ address }) => address.address)
    .find((address) => typeof address === "number" || address >> 118n !== 0x3fan);
}

function bestRoute(routes: readonly Route[], address: Address): Route | undefined {
  return bestOf(routes.filter(({ destination }) => destination === undefined || cidrContains(destination, address)));
}

/** Returns the route with the longest prefix and, among equal ones, the lowest metric. */
function bestOf(routes: readonly Route[]): Route | undefined {
  const lengthOf = ({ destination }: Route): number => destination?.prefixLength ?? 0;
  return routes.toSorted((a, b) => lengthOf(b) - lengthOf(a) || a.priority - b.priority)[0];
}

/** Returns a pod of another node for each link: the third address that one of our routes leads to. */
function remotePods(
  routes: readonly Route[],
  linkOf: (route: Route) => SampleLink | undefined,
): FlowSurroundings["remotes"] {
  const found = new Map<number, FlowSurroundings["remotes"][number]>();
  for (const route of routes) {
    const { destination, protocol, gateway } = route;
    if (protocol !== ROUTE_PROTOCOL || gateway === undefined) continue;
    const [pod, link] = [addressIn(destination, 2n), linkOf(route)];
    if (pod !== undefined && link !== undefined && !found.has(link.index)) found.set(link.index, { pod, link });
  }
  return [...found.values()];
}

/** Returns the tunnel's ends. Our routes through it have other nodes' outer addresses as gateways. */
function tunnelEnds({ links }: NodeFacts, routes: readonly Route[], family: Family): FlowSurroundings["tunnel"] {
  const device = (seen(links) ?? []).find(({ name, vxlan }) => name === TUNNEL.name && vxlan !== undefined);
  const own = device?.vxlan?.local;
  if (device === undefined || own === undefined || familyOf(own) !== family) return undefined;
  const route = routes.find(
    ({ protocol, outputInterface }) => protocol === ROUTE_PROTOCOL && outputInterface === device.index,
  );
  return route?.gateway === undefined ? undefined : { own, other: route.gateway };
}
