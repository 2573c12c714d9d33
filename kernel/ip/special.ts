import { type Address, type Family, familyOf } from "./address.ts";
import { type Cidr, cidrContains, parseCidr } from "./cidr.ts";

type ByFamily = Readonly<Record<Family, Cidr>>;

function byFamily(ipv4: string, ipv6: string): ByFamily {
  return Object.freeze({ 4: parseCidr(ipv4), 6: parseCidr(ipv6) });
}

/** All addresses of a family. */
export const EVERY_ADDRESS: ByFamily = byFamily("0.0.0.0/0", "::/0");

/** "This" network and the unspecified address, which no host has (RFC 1122 3.2.1.3, RFC 4291 2.5.2). */
export const UNSPECIFIED: ByFamily = byFamily("0.0.0.0/8", "::/128");

/** The addresses by which a host reaches itself (RFC 1122 3.2.1.3, RFC 4291 2.5.3). */
export const LOOPBACK: ByFamily = byFamily("127.0.0.0/8", "::1/128");

/** Addresses that are valid only on one link (RFC 3927, RFC 4291 2.5.6). */
export const LINK_LOCAL: ByFamily = byFamily("169.254.0.0/16", "fe80::/10");

/** Addresses of groups (RFC 5771, RFC 4291 2.7). */
export const MULTICAST: ByFamily = byFamily("224.0.0.0/4", "ff00::/8");

/** IPv4 addresses that are not assigned, and the limited broadcast address (RFC 1112, RFC 919). */
export const RESERVED_IPV4: Cidr = parseCidr("240.0.0.0/4");

/** The limited broadcast address (RFC 919). */
export const BROADCAST: Cidr = parseCidr("255.255.255.255/32");

/** Returns the prefixes of both families. */
export function bothFamilies(...networks: readonly ByFamily[]): readonly Cidr[] {
  return networks.flatMap((network) => [network[4], network[6]]);
}

/** Returns whether an address is in 127.0.0.0/8, or ::1. */
export function isLoopback(address: Address): boolean {
  return isIn(LOOPBACK, address);
}

/** Returns whether an address is valid only on its link. */
export function isLinkLocal(address: Address): boolean {
  return isIn(LINK_LOCAL, address);
}

function isIn(network: ByFamily, address: Address): boolean {
  return cidrContains(network[familyOf(address)], address);
}
