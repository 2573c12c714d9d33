import type { Address } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";

/** The addresses of a prefix, made for comparing many with it. */
export interface AddressRange {
  readonly cidr: Cidr;
  readonly first: Address;
  readonly last: Address;
}

/** All addresses of a prefix, the first and the last among them. */
export function rangeOf(cidr: Cidr): AddressRange {
  return { cidr, first: networkAddress(cidr), last: lastAddress(cidr) };
}

/** Whether the range has the address; never true across families. */
export function isWithin({ first, last }: AddressRange, address: Address): boolean {
  return typeof first === typeof address && first <= address && address <= last;
}
