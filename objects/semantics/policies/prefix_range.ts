import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";

/** The addresses of a prefix, in a form that many addresses can be compared with. */
export interface PrefixRange {
  readonly cidr: Cidr;
  readonly first: Address;
  readonly last: Address;
}

/** Returns all addresses of a prefix, including the first and the last. */
export function prefixRange(cidr: Cidr): PrefixRange {
  return { cidr, first: networkAddress(cidr), last: lastAddress(cidr) };
}

/** Returns whether the range contains the address; never true across families. */
export function isWithin({ first, last }: PrefixRange, address: Address): boolean {
  return typeof first === typeof address && first <= address && address <= last;
}
