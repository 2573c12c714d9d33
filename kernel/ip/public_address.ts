import type { Address } from "./address.ts";
import { parseCidr } from "./cidr.ts";
import { isInRanges, rangeOf, unitedRanges } from "./ranges.ts";
import { bothFamilies, LINK_LOCAL, LOOPBACK, MULTICAST, RESERVED_IPV4, UNSPECIFIED } from "./special.ts";

/**
 * Private and shared addresses (RFC 1918, RFC 4193, RFC 6598), those of a host or link itself, those of groups, and IPv6
 * addresses that are IPv4 ones (RFC 4291 section 2.5.5).
 */
const NOT_PUBLIC = unitedRanges(
  [
    ...bothFamilies(UNSPECIFIED, LOOPBACK, LINK_LOCAL, MULTICAST),
    RESERVED_IPV4,
    ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"].map((text) => parseCidr(text)),
    ...["fc00::/7", "::/96", "::ffff:0:0/96"].map((text) => parseCidr(text)),
  ].map(rangeOf),
);

/** Returns whether an address may be that of a server on the internet. */
export function isPublic(address: Address): boolean {
  return !isInRanges(NOT_PUBLIC, address);
}
