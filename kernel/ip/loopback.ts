import type { Address, Family } from "./address.ts";
import { familyOf } from "./address.ts";
import type { Cidr } from "./cidr.ts";
import { cidrContains, parseCidr } from "./cidr.ts";

/** The addresses by which a host reaches itself, local to every host (RFC 1122 3.2.1.3, RFC 4291 2.5.3). */
export const LOOPBACK: Readonly<Record<Family, Cidr>> = Object.freeze({
  4: parseCidr("127.0.0.0/8"),
  6: parseCidr("::1/128"),
});

/** Tells whether an address is in 127.0.0.0/8, or ::1. */
export function isLoopback(address: Address): boolean {
  return cidrContains(LOOPBACK[familyOf(address)], address);
}
