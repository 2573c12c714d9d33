import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, formatCidr, IPV4_MAPPED, networkAddress } from "../../kernel/ip/cidr.ts";
import { bothFamilies, LINK_LOCAL, LOOPBACK, MULTICAST, RESERVED_IPV4, UNSPECIFIED } from "../../kernel/ip/special.ts";
import type { Node } from "../model.ts";

/** Prefixes that no node and no pod can have, since the node itself needs their addresses. */
const RESERVED = [...bothFamilies(UNSPECIFIED, LOOPBACK, LINK_LOCAL, MULTICAST), RESERVED_IPV4, IPV4_MAPPED];

/** The shortest allowed prefix length: the pods of a whole cluster need less, so those of a node do. */
const SHORTEST_PREFIX = { 4: 8, 6: 16 } as const;

/** Milliseconds after which a Node that is not Ready loses its claims to a Ready one. */
const MOST_NOT_READY = 300_000;

/** Whether a Node has not been Ready for so long that it may have been renamed or installed again. */
export function isLost({ notReadySince }: Pick<Node, "notReadySince">, now = 0): boolean {
  return notReadySince !== undefined && now - notReadySince >= MOST_NOT_READY;
}

/** Whether no node can have an address, whatever its Node object says. */
export function isReserved(address: Address): boolean {
  return RESERVED.some((cidr) => cidrContains(cidr, address));
}

/** Returns why no node's pods can have addresses from a prefix; undefined where they can. */
export function unfitForPods(cidr: Cidr): string | undefined {
  const shortest = SHORTEST_PREFIX[cidrFamily(cidr)];
  if (cidr.prefixLength < shortest) return `is larger than a /${shortest}`;
  const reserved = RESERVED.find((other) => doOverlap(other, cidr));
  return reserved === undefined ? undefined : `overlaps ${formatCidr(reserved)}`;
}

export function doOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, networkAddress(b)) || cidrContains(b, networkAddress(a));
}

export function isSameCidr(a: Cidr, b: Cidr): boolean {
  return a.address === b.address && a.prefixLength === b.prefixLength;
}

/** Returns a node's InternalIPs, each once. */
export function internalAddresses({ addresses }: Pick<Node, "addresses">): readonly Address[] {
  return [...new Set(addresses.flatMap(({ type, address }) => (type === "InternalIP" ? [address] : [])))];
}

/** Returns a node's InternalIPs, without those that no node can have. */
export function usableOf(node: Node | undefined): readonly Address[] {
  return node === undefined ? [] : internalAddresses(node).filter((address) => !isReserved(address));
}
