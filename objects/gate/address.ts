import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import { type Cidr, cidrContains, IPV4_MAPPED, networkAddress, parseCidr } from "../../kernel/ip/cidr.ts";
import { expectString, invalid } from "./reader.ts";

/** Returns an IP address. @throws DrawbridgeError ERR_OBJECT for another type, ERR_ADDRESS for another text */
export function expectAddress(value: unknown, field: string): Address {
  return parseAddress(expectString(value, field), field);
}

/**
 * Returns the network of a prefix, with host bits cleared, as the API server and every engine read it. IPv4-mapped
 * prefixes are refused: some read them as IPv4, as IPv6 they have no packets, and a Deny of one would deny nothing.
 *
 * @throws DrawbridgeError ERR_OBJECT for another type or mapped addresses, ERR_ADDRESS for another text
 */
export function expectNetwork(value: unknown, field: string): Cidr {
  const cidr = parseCidr(expectString(value, field), field);
  if (cidrContains(IPV4_MAPPED, cidr.address)) {
    throw invalid(field, value, 'an IPv4 prefix in its own form ("10.0.0.0/8")');
  }
  return Object.freeze({ address: networkAddress(cidr), prefixLength: cidr.prefixLength });
}
