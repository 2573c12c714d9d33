import type { Address, Family } from "../../kernel/ip/address.ts";
import { compareAddresses, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains, cidrFamily, formatCidr, lastAddress, networkAddress, parseCidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "../cluster/model.ts";

/** A node, as far as others send packets to it. */
export interface Peer {
  readonly name: string;
  /** Its first InternalIP: the tunnel goes between these. */
  readonly primary: Address | undefined;
  /** Its first InternalIP of each family. */
  readonly addresses: Readonly<Record<Family, Address | undefined>>;
  /** Those nobody else has. */
  readonly podCidrs: readonly Cidr[];
}

/** What the Node objects say about where pods are. */
export interface Peers {
  readonly own: Peer | undefined;
  readonly others: readonly Peer[];
  /** What of the Node objects is not used, in words. */
  readonly problems: readonly string[];
}

/** Where no node and no pod can be: what would take addresses away that the node itself needs. */
const RESERVED = ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/127", "fe80::/10", "ff00::/8"].map(
  (text) => parseCidr(text),
);

/** A pod CIDR and whose it is. */
interface Held {
  readonly node: string;
  readonly cidr: Cidr;
}

/**
 * Judges the Nodes: whose pod CIDRs can be routed where.
 *
 * One that two nodes have is routed to neither, since nobody can tell whose pods they are; of two that overlap the larger
 * is not routed, so that a Node with one much too large harms itself alone. Nor is one that overlaps this node's own, or
 * has a node's address, which would take that node off the network.
 *
 * @param nodeName this node
 * @param ownCidrs this node's pod CIDRs where its Node has none
 */
export function judgeNodes(nodes: Iterable<Node>, nodeName: string, ownCidrs: readonly Cidr[] = []): Peers {
  const sorted = [...nodes].sort((a, b) => (a.name < b.name ? -1 : 1));
  const problems: string[] = [];
  const addressesOf = new Map(sorted.map((node) => [node.name, usableAddresses(node, problems)]));
  const own = sorted.find(({ name }) => name === nodeName);
  const ownAddresses = new Set(addressesOf.get(nodeName));
  const held: Held[] = (own === undefined || own.podCidrs.length === 0 ? ownCidrs : []).map((cidr) => ({
    node: nodeName,
    cidr,
  }));
  for (const { name, podCidrs } of sorted) for (const cidr of podCidrs) held.push({ node: name, cidr });
  const refused = refusedCidrs(held, nodeName, addressesOf, problems);
  const peerOf = ({ name, podCidrs }: Node): Peer => {
    const addresses = addressesOf.get(name) ?? [];
    const first = (family: Family): Address | undefined => addresses.find((address) => familyOf(address) === family);
    return Object.freeze({
      name,
      primary: addresses[0],
      addresses: Object.freeze({ 4: first(4), 6: first(6) }),
      podCidrs: Object.freeze(podCidrs.filter((cidr) => !refused.has(heldKey({ node: name, cidr })))),
    });
  };
  const others = sorted.filter((node) => {
    if (node === own) return false;
    const shared = addressesOf.get(node.name)?.find((address) => ownAddresses.has(address));
    if (shared === undefined) return true;
    problems.push(`Node ${node.name}: InternalIP ${formatAddress(shared)} is this node's; no routes to its pods`);
    return false;
  });
  return { own: own && peerOf(own), others: others.map(peerOf), problems };
}

function usableAddresses({ name, addresses }: Node, problems: string[]): readonly Address[] {
  const internal = addresses.filter(({ type }) => type === "InternalIP").map(({ address }) => address);
  return internal.filter((address) => {
    if (!RESERVED.some((cidr) => cidrContains(cidr, address))) return true;
    problems.push(`Node ${name}: InternalIP ${formatAddress(address)} is no address of a node; it is not used`);
    return false;
  });
}

type Edged = Held & { readonly first: Address; readonly last: Address };
type Refuse = (one: Held, why: string) => void;

/** @returns the keys of those that nobody gets a route to */
function refusedCidrs(
  held: readonly Held[],
  nodeName: string,
  addressesOf: ReadonlyMap<string, readonly Address[]>,
  problems: string[],
): ReadonlySet<string> {
  const refused = new Set<string>();
  const refuse: Refuse = (one, why) => {
    if (refused.has(heldKey(one))) return;
    refused.add(heldKey(one));
    problems.push(`Node ${one.node}: pod CIDR ${formatCidr(one.cidr)} ${why}; it gets no route`);
  };
  const isOurs = ({ node }: Held): number => (node === nodeName ? 0 : 1);
  const sorted = held
    .map((one): Edged => ({ ...one, first: networkAddress(one.cidr), last: lastAddress(one.cidr) }))
    .sort((a, b) => compareAddresses(a.first, b.first) || compareAddresses(b.last, a.last) || isOurs(a) - isOurs(b));
  refuseOverlaps(sorted, nodeName, refuse);
  for (const one of sorted) {
    const reserved = RESERVED.find((cidr) => cidrContains(cidr, one.first) || cidrContains(one.cidr, cidr.address));
    if (reserved !== undefined) refuse(one, `overlaps ${formatCidr(reserved)}`);
  }
  refuseWithNodes(sorted, addressesOf, refuse);
  return refused;
}

/** @param sorted so that prefixes that hold one come before it; this node's own before others that are equal */
function refuseOverlaps(sorted: readonly Edged[], nodeName: string, refuse: Refuse): void {
  /** Those that hold the one before, each inside of that before it: of two prefixes that overlap one holds the other. */
  const open: Edged[] = [];
  for (const one of sorted) {
    while (open.length > 0 && !isInside(one, open.at(-1))) open.pop();
    const around = open.at(-1);
    const isEqual = around?.cidr.prefixLength === one.cidr.prefixLength;
    if (around !== undefined) refuse(around, overlaps(one));
    const ours = open.find(({ node }) => node === nodeName);
    if (ours !== undefined) refuse(one, overlaps(ours));
    else if (around !== undefined && isEqual) refuse(one, overlaps(around));
    if (!isEqual) open.push(one);
  }
}

function refuseWithNodes(
  sorted: readonly Edged[],
  addressesOf: ReadonlyMap<string, readonly Address[]>,
  refuse: Refuse,
): void {
  const nodeAddresses = [...addressesOf]
    .flatMap(([node, addresses]) => addresses.map((address) => ({ node, address })))
    .sort((a, b) => compareAddresses(a.address, b.address));
  for (const one of sorted) {
    const inside = nodeAddresses[lowerBound(nodeAddresses, one.first)];
    if (inside === undefined || !cidrContains(one.cidr, inside.address)) continue;
    refuse(one, `has the address ${formatAddress(inside.address)} of Node ${inside.node}`);
  }
}

function overlaps({ node, cidr }: Held): string {
  return `overlaps ${formatCidr(cidr)} of Node ${node}`;
}

function heldKey({ node, cidr }: Held): string {
  return `${node} ${formatCidr(cidr)}`;
}

function isInside(one: { readonly first: Address; readonly cidr: Cidr }, around: Held | undefined): boolean {
  return (
    around !== undefined && cidrFamily(around.cidr) === cidrFamily(one.cidr) && cidrContains(around.cidr, one.first)
  );
}

/** The place of the first that is not before an address. */
function lowerBound(sorted: readonly { readonly address: Address }[], address: Address): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const entry = sorted[middle];
    if (entry === undefined || compareAddresses(entry.address, address) >= 0) high = middle;
    else low = middle + 1;
  }
  return low;
}
