import type { Address, Family } from "../../../kernel/ip/address.ts";
import { addressPlus, compareAddresses, familyOf } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";

/** All addresses of one family between two, both included. */
export interface AddressRange {
  readonly first: Address;
  readonly last: Address;
}

/**
 * The addresses of prefixes as ranges in order that neither overlap nor touch: the kernel refuses elements of a set that
 * overlap, and those that touch would come back from it as one.
 */
export function joinedRanges(cidrs: readonly Cidr[], family: Family): readonly AddressRange[] {
  const sorted = cidrs
    .filter(({ address }) => familyOf(address) === family)
    .map((cidr): AddressRange => ({ first: networkAddress(cidr), last: lastAddress(cidr) }))
    .sort((a, b) => compareAddresses(a.first, b.first) || compareAddresses(a.last, b.last));
  const joined: AddressRange[] = [];
  for (const range of sorted) {
    const before = joined.at(-1);
    const behind = before === undefined ? undefined : addressPlus(before.last, 1n);
    const isApart = before === undefined || (behind !== undefined && compareAddresses(range.first, behind) > 0);
    if (isApart) joined.push(range);
    else if (compareAddresses(range.last, before.last) > 0) joined.splice(-1, 1, { ...before, last: range.last });
  }
  return joined;
}

/** The ranges without the addresses of a prefix. */
export function withoutPrefix(ranges: readonly AddressRange[], prefix: Cidr): readonly AddressRange[] {
  const [low, high] = [networkAddress(prefix), lastAddress(prefix)];
  return ranges.flatMap(({ first, last }) => {
    if (compareAddresses(last, low) < 0 || compareAddresses(first, high) > 0) return [{ first, last }];
    const [before, behind] = [addressPlus(low, -1n), addressPlus(high, 1n)];
    return [
      ...(before !== undefined && compareAddresses(first, before) <= 0 ? [{ first, last: before }] : []),
      ...(behind !== undefined && compareAddresses(behind, last) <= 0 ? [{ first: behind, last }] : []),
    ];
  });
}
