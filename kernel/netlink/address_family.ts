import type { Family } from "../ip/address.ts";

/** Returns AF_INET or AF_INET6, as in rtnetlink headers. */
export function addressFamilyNumber(family: Family): number {
  return family === 4 ? 2 : 10;
}
