import type { Address } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, cidrFamily, doOverlap, formatCidr, IPV4_MAPPED } from "../../kernel/ip/cidr.ts";
import { bothFamilies, LINK_LOCAL, LOOPBACK, MULTICAST, RESERVED_IPV4, UNSPECIFIED } from "../../kernel/ip/special.ts";

/** Prefixes that no node and no pod can have, since the node itself needs their addresses. */
const RESERVED = [...bothFamilies(UNSPECIFIED, LOOPBACK, LINK_LOCAL, MULTICAST), RESERVED_IPV4, IPV4_MAPPED];

/** The shortest allowed prefix length: the pods of a whole cluster need less, so those of a node do. */
const SHORTEST_PREFIX = { 4: 8, 6: 16 } as const;

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
