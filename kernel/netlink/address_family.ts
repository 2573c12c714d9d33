import type { Family } from "../ip/address.ts";

const [AF_INET, AF_INET6] = [2, 10];

/** Returns AF_INET or AF_INET6, as in rtnetlink headers. */
export function addressFamilyNumber(family: Family): number {
  return family === 4 ? AF_INET : AF_INET6;
}

/** Returns the family of such a number; undefined for any other than AF_INET and AF_INET6. */
export function familyFromNumber(number: number): Family | undefined {
  return number === AF_INET ? 4 : number === AF_INET6 ? 6 : undefined;
}
