import { type Address, addressFromBytes, addressToBytes } from "./address.ts";
import { cidrContains, parseCidr } from "./cidr.ts";
import { isInRanges, rangeOf, unitedRanges } from "./ranges.ts";
import { bothFamilies, LINK_LOCAL, LOOPBACK, MULTICAST, RESERVED_IPV4, UNSPECIFIED } from "./special.ts";

/**
 * Private and shared addresses (RFC 1918, RFC 3879, RFC 4193, RFC 6598), those of a host or link itself, those of groups,
 * those for networks' own use (RFC 2544, RFC 6890, RFC 9602), and IPv6 addresses that stand for IPv4 ones (RFC 4291 section
 * 2.5.5, RFC 7915, RFC 8215) or lead to them through a tunnel (Teredo, 6to4). Hosts of clouds serve metadata at addresses
 * in some of these ranges, and those of Azure at an address of its own.
 */
const NOT_PUBLIC = unitedRanges(
  [
    ...bothFamilies(UNSPECIFIED, LOOPBACK, LINK_LOCAL, MULTICAST),
    RESERVED_IPV4,
    ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"].map((text) => parseCidr(text)),
    ...["192.0.0.0/24", "198.18.0.0/15", "168.63.129.16/32", "5f00::/16"].map((text) => parseCidr(text)),
    ...["fc00::/7", "fec0::/10", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b:1::/48"].map((text) =>
      parseCidr(text),
    ),
    ...["2001::/32", "2002::/16"].map((text) => parseCidr(text)),
  ].map(rangeOf),
);

/** The prefix of the IPv6 addresses by which NAT64 reaches IPv4 ones (RFC 6052 section 2.1). */
const NAT64 = parseCidr("64:ff9b::/96");

/** Returns the address that a packet to this one reaches: an IPv4 one through NAT64, else the address itself. */
export function behindNat64(address: Address): Address {
  return cidrContains(NAT64, address) ? addressFromBytes(addressToBytes(address).subarray(12)) : address;
}

/** Returns whether an address may be that of a server on the internet. */
export function isPublic(address: Address): boolean {
  return !isInRanges(NOT_PUBLIC, behindNat64(address));
}
