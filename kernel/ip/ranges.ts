import { type Address, addressPlus, compareAddresses, type Family, familyOf } from "./address.ts";
import { type Cidr, lastAddress, networkAddress } from "./cidr.ts";

/** All addresses of one family from `first` to `last`, both included. */
export interface AddressRange {
  readonly first: Address;
  readonly last: Address;
}

/** Returns all addresses of a prefix. */
export function rangeOf(cidr: Cidr): AddressRange {
  return { first: networkAddress(cidr), last: lastAddress(cidr) };
}

/**
 * Returns the addresses of prefixes as ordered ranges that neither overlap nor touch. The kernel refuses overlapping
 * elements of a set, and returns touching ones as one.
 */
export function joinedRanges(cidrs: readonly Cidr[], family: Family): readonly AddressRange[] {
  return unitedRanges(cidrs.filter(({ address }) => familyOf(address) === family).map(rangeOf));
}

/** Returns the same addresses in ordered ranges, IPv4 first, that neither overlap nor touch. */
export function unitedRanges(ranges: readonly AddressRange[]): readonly AddressRange[] {
  const sorted = ranges.toSorted((a, b) => compareAddresses(a.first, b.first) || compareAddresses(a.last, b.last));
  const joined: AddressRange[] = [];
  for (const range of sorted) {
    const before = joined.at(-1);
    const behind = before === undefined ? undefined : addressPlus(before.last, 1n);
    const isOfFamily = before !== undefined && familyOf(before.first) === familyOf(range.first);
    const isApart = !isOfFamily || (behind !== undefined && compareAddresses(range.first, behind) > 0);
    if (isApart) joined.push(range);
    else if (compareAddresses(range.last, before.last) > 0) joined.splice(-1, 1, { ...before, last: range.last });
  }
  return joined;
}

/** Returns the addresses of ordered, separate ranges that are not in `others`, which may overlap in any order. */
export function withoutRanges(
  ranges: readonly AddressRange[],
  others: readonly AddressRange[],
): readonly AddressRange[] {
  const gone = unitedRanges(others);
  const left: AddressRange[] = [];
  let next = 0;
  for (const { first, last } of ranges) {
    let rest: Address | undefined = first;
    for (let hole = gone[next]; hole !== undefined && compareAddresses(hole.last, first) < 0;) hole = gone[++next];
    for (let index = next; rest !== undefined; index++) {
      const hole = gone[index];
      if (hole === undefined || compareAddresses(hole.first, last) > 0) break;
      const before = addressPlus(hole.first, -1n);
      if (before !== undefined && compareAddresses(rest, before) <= 0) left.push({ first: rest, last: before });
      rest = compareAddresses(hole.last, last) < 0 ? addressPlus(hole.last, 1n) : undefined;
    }
    if (rest !== undefined) left.push({ first: rest, last });
  }
  return left;
}

/** Tells whether one of the ranges, which are ordered and separate, contains the address. */
export function isInRanges(ranges: readonly AddressRange[], address: Address): boolean {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const range = ranges[middle];
    if (range === undefined || compareAddresses(range.last, address) >= 0) high = middle;
    else low = middle + 1;
  }
  const found = ranges[low];
  return found !== undefined && compareAddresses(found.first, address) <= 0;
}
