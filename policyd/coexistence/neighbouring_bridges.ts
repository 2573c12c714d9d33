import { type Address, addressPlus, bitsOf, formatAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, hostCidr, networkAddress } from "../../kernel/ip/cidr.ts";
import type { InterfaceAddress } from "../../kernel/route/interface_address.ts";
import type { Link } from "../../kernel/route/link.ts";
import type { ProxyNeighbour } from "../../kernel/route/neighbour.ts";

/** The fields of a link that show whether it may lead to another plugin's pods. */
export type LinkSight = Pick<Link, "index" | "name" | "kind">;

/** A bridge of another plugin, and the networks of its addresses. */
export interface NeighbouringBridge {
  readonly index: number;
  readonly name: string;
  readonly networks: readonly Cidr[];
}

/** A route with precedence over both bridges' routes to the network that they share. */
export interface BesideRoute {
  readonly destination: Cidr;
  /** The other bridge; undefined for ours. */
  readonly index: number | undefined;
}

/** The entries with which our pods and other plugins' pods reach each other although they share a network. */
export interface BesideEntries {
  readonly routes: readonly BesideRoute[];
  /** With these the node answers for addresses of our pods on other plugins' bridges. */
  readonly proxies: readonly ProxyNeighbour[];
}

/**
 * Returns the bridges beside ours whose networks may contain addresses of our pods: those of flannel, kubenet and the
 * sample configurations of runtimes have the node's pod CIDR, which is then ours as well. A network of one address
 * contains no others.
 */
export function neighbouringBridges(
  links: readonly LinkSight[],
  addresses: readonly Pick<InterfaceAddress, "index" | "address">[],
  own: string,
): readonly NeighbouringBridge[] {
  return links
    .filter(({ kind, name }) => kind === "bridge" && name !== own)
    .map(({ index, name }) => ({
      index,
      name,
      networks: addresses
        .filter((one) => one.index === index && one.address.prefixLength < bitsOf(cidrFamily(one.address)))
        .map(({ address }) => address),
    }));
}

/**
 * Returns the entries that our pods need.
 *
 * Of two connected routes to one network the kernel prefers the older in IPv4, and in IPv6 the one over the link that a
 * packet came from (rt6_score_route). So both halves of the network lead to the other bridge, and single addresses to
 * our pods: these routes win in both families, whichever bridge is older. The other plugin's pods take our pods for
 * neighbours on their own link and ask there for their MAC addresses, so the node answers with its own.
 */
export function besideEntries(pods: Iterable<Address>, bridges: readonly NeighbouringBridge[]): BesideEntries {
  const halves = new Map<string, BesideRoute>();
  const routes: BesideRoute[] = [];
  const proxies: ProxyNeighbour[] = [];
  for (const address of pods) {
    let isShared = false;
    for (const { index, networks } of bridges) {
      const network = networks.find((one) => cidrContains(one, address));
      if (network === undefined) continue;
      isShared = true;
      proxies.push({ index, address });
      // If several bridges have one network, the first gets it.
      for (const destination of halvesOf(network)) {
        const key = formatCidr(destination);
        if (!halves.has(key)) halves.set(key, { destination, index });
      }
    }
    if (isShared) routes.push({ destination: hostCidr(address), index: undefined });
  }
  return { routes: [...routes, ...halves.values()], proxies };
}

/** Returns the two halves of a network; none where they would be single addresses. */
function halvesOf(network: Cidr): readonly Cidr[] {
  const bits = bitsOf(cidrFamily(network));
  const prefixLength = network.prefixLength + 1;
  if (prefixLength >= bits) return [];
  const lower = networkAddress(network);
  const upper = addressPlus(lower, 1n << BigInt(bits - prefixLength));
  return [lower, upper].flatMap((address) => (address === undefined ? [] : [{ address, prefixLength }]));
}

/** The steps from one state to another. */
export interface BesideChange {
  readonly added: BesideEntries;
  readonly removed: BesideEntries;
}

/** Compares the desired entries with our entries in the kernel. */
export function besideChange(desired: BesideEntries, found: BesideEntries): BesideChange {
  return { added: without(desired, found), removed: without(found, desired) };
}

/** Returns whether there are no entries. */
export function isNothing({ routes, proxies }: BesideEntries): boolean {
  return routes.length === 0 && proxies.length === 0;
}

function without(entries: BesideEntries, others: BesideEntries): BesideEntries {
  const routes = new Set(others.routes.map(routeKey));
  const proxies = new Set(others.proxies.map(proxyKey));
  return {
    routes: entries.routes.filter((route) => !routes.has(routeKey(route))),
    proxies: entries.proxies.filter((proxy) => !proxies.has(proxyKey(proxy))),
  };
}

function routeKey({ destination, index }: BesideRoute): string {
  return `${formatCidr(destination)} ${index ?? "ours"}`;
}

function proxyKey({ index, address }: ProxyNeighbour): string {
  return `${index} ${formatAddress(address)}`;
}
