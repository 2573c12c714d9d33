import type { Family } from "../ip/address.ts";

/** AF_INET or AF_INET6, as rtnetlink headers carry them. */
export function addressFamilyNumber(family: Family): number {
  return family === 4 ? 2 : 10;
}
