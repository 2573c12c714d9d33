import { DrawbridgeError } from "../kernel/error.ts";
import {
  type Address,
  addressPlus,
  bitsOf,
  compareAddresses,
  familyOf,
  formatAddress,
  tryParseAddress,
} from "../kernel/ip/address.ts";
import {
  type Cidr,
  cidrContains,
  cidrFamily,
  formatCidr,
  hasHostBits,
  hostCidr,
  IPV4_MAPPED,
  lastAddress,
  networkAddress,
  parseCidr,
} from "../kernel/ip/cidr.ts";

/** One canonical range: `rangeStart` to `rangeEnd`, both inclusive and inside `subnet`. */
export interface AllocationRange {
  readonly subnet: Cidr;
  readonly rangeStart: Address;
  readonly rangeEnd: Address;
  /** Never allocated. It may be outside the subnet, as host-local allows. */
  readonly gateway: Address;
  /** Prefixes that are never allocated. */
  readonly exclude: readonly Cidr[];
}

/** The ranges that one address is allocated from: of one family, in order, without overlap, at least one. */
export type RangeSet = readonly AllocationRange[];

/** A range as in the configuration. `exclude` holds prefixes or single addresses; host-local does not have it. */
export interface RangeInput {
  readonly subnet?: string | undefined;
  readonly rangeStart?: string | undefined;
  readonly rangeEnd?: string | undefined;
  readonly gateway?: string | undefined;
  readonly exclude?: readonly string[] | undefined;
}

/**
 * Returns one range with host-local's defaults filled in and host-local's rules checked (v1.9.1, `Range.Canonicalize`).
 *
 * Defaults: the gateway and `rangeStart` are the address after the network address, `rangeEnd` is the last address, for
 * IPv4 the one before the broadcast address. As in host-local an empty text counts as absent.
 *
 * @param field path of the range for messages ("ipam.ranges[0][1]")
 * @throws DrawbridgeError ERR_CONFIGURATION naming the field, the value and what was expected
 */
export function canonicalRange(input: RangeInput, field: string): AllocationRange {
  const subnet = canonicalSubnet(input.subnet, `${field}.subnet`);
  const first = step(networkAddress(subnet), 1n);
  const last = cidrFamily(subnet) === 4 ? step(lastAddress(subnet), -1n) : lastAddress(subnet);

  const gateway = optionalAddress(input.gateway, `${field}.gateway`) ?? first;
  if (familyOf(gateway) !== cidrFamily(subnet)) {
    throw wrong(
      `${field}.gateway`,
      `${formatAddress(gateway)} is not of the family of ${formatCidr(subnet)}; expected an IPv${cidrFamily(subnet)} address`,
    );
  }
  const rangeStart = optionalAddress(input.rangeStart, `${field}.rangeStart`) ?? first;
  const rangeEnd = optionalAddress(input.rangeEnd, `${field}.rangeEnd`) ?? last;
  expectInside("RangeStart", rangeStart, subnet, `${field}.rangeStart`);
  expectInside("RangeEnd", rangeEnd, subnet, `${field}.rangeEnd`);
  if (compareAddresses(rangeStart, rangeEnd) > 0) {
    throw wrong(
      `${field}.rangeStart`,
      `RangeStart ${formatAddress(rangeStart)} is after RangeEnd ${formatAddress(rangeEnd)}; expected the first address not after the last`,
    );
  }
  const exclude = (input.exclude ?? []).map((text, i) => canonicalExclude(text, subnet, `${field}.exclude[${i}]`));
  return Object.freeze({ subnet, rangeStart, rangeEnd, gateway, exclude: Object.freeze(exclude) });
}

/**
 * Returns all range sets of a configuration: each range canonical, one family per set, no overlap inside or between
 * sets.
 *
 * @param sets non-empty list of non-empty lists, as `ipam.ranges`
 * @param field path of the list for messages ("ipam.ranges")
 * @throws DrawbridgeError ERR_CONFIGURATION naming the field, the value and what was expected
 */
export function canonicalRangeSets(sets: readonly (readonly RangeInput[])[], field: string): readonly RangeSet[] {
  if (sets.length === 0) throw wrong(field, "no IP ranges specified; expected at least one range set");
  const canonical = sets.map((set, i) => canonicalRangeSet(set, `${field}[${i}]`));
  for (let j = 1; j < canonical.length; j++) {
    for (let i = 0; i < j; i++) {
      const [earlier, later] = [canonical[i] ?? [], canonical[j] ?? []];
      for (const range of later) {
        if (overlapping(earlier, range) === undefined) continue;
        throw wrong(
          `${field}[${j}]`,
          `range set ${i} overlaps with ${j} (${formatRangeSet(earlier)} and ${formatRangeSet(later)}); expected disjoint range sets`,
        );
      }
    }
  }
  return Object.freeze(canonical);
}

/** Returns the range of the set that has this address between its start and end, if one does. */
export function rangeFor(set: RangeSet, address: Address): AllocationRange | undefined {
  for (const range of set) {
    if (compareAddresses(range.rangeStart, address) <= 0 && compareAddresses(address, range.rangeEnd) <= 0) {
      return range;
    }
  }
  return undefined;
}

/** Returns a range set as host-local prints it: `10.0.0.1-10.0.0.254,10.0.1.1-10.0.1.254`. */
export function formatRangeSet(set: RangeSet): string {
  return set.map(formatRange).join(",");
}

function formatRange(range: AllocationRange): string {
  return `${formatAddress(range.rangeStart)}-${formatAddress(range.rangeEnd)}`;
}

function canonicalRangeSet(inputs: readonly RangeInput[], field: string): RangeSet {
  const ranges = inputs.map((input, i) => canonicalRange(input, `${field}[${i}]`));
  const head = ranges[0];
  if (head === undefined) throw wrong(field, "empty range set; expected at least one range");
  for (let i = 0; i < ranges.length; i++) {
    const range = ranges[i] ?? head;
    if (cidrFamily(range.subnet) !== cidrFamily(head.subnet)) {
      throw wrong(
        `${field}[${i}].subnet`,
        `mixed address families: ${formatCidr(range.subnet)} beside ${formatCidr(head.subnet)}; expected one family per range set`,
      );
    }
    const other = overlapping(ranges.slice(0, i), range);
    if (other !== undefined) {
      throw wrong(
        `${field}[${i}].subnet`,
        `subnets ${formatRange(other)} and ${formatRange(range)} overlap; expected disjoint ranges`,
      );
    }
  }
  return Object.freeze(ranges);
}

function canonicalSubnet(text: string | undefined, field: string): Cidr {
  if (text === undefined) throw wrong(field, 'missing; expected a prefix such as "10.244.1.0/24"');
  const subnet = configuredCidr(text, field);
  const bits = bitsOf(cidrFamily(subnet));
  if (subnet.prefixLength > bits - 2) {
    throw wrong(field, `Network ${formatCidr(subnet)} too small to allocate from; expected /${bits - 2} or shorter`);
  }
  if (hasHostBits(subnet)) {
    const network = formatAddress(networkAddress(subnet));
    throw wrong(
      field,
      `${formatCidr(subnet)}: Network has host bits set. For a subnet mask of length ${subnet.prefixLength} the network address is ${network}; expected ${network}/${subnet.prefixLength}`,
    );
  }
  // Go prints an IPv4-mapped IPv6 address as IPv4, so two addresses would share one file name in the store.
  if (prefixesOverlap(subnet, IPV4_MAPPED)) {
    throw wrong(
      field,
      `${formatCidr(subnet)} overlaps the IPv4-mapped addresses ${formatCidr(IPV4_MAPPED)}; expected an IPv4 prefix or another IPv6 prefix`,
    );
  }
  return subnet;
}

function canonicalExclude(text: string, subnet: Cidr, field: string): Cidr {
  const single = tryParseAddress(text);
  const prefix = single === undefined ? configuredCidr(text, field) : hostCidr(single);
  if (hasHostBits(prefix)) {
    throw wrong(
      field,
      `${formatCidr(prefix)} has host bits set; expected ${formatAddress(networkAddress(prefix))}/${prefix.prefixLength}`,
    );
  }
  // An exclusion elsewhere is a typing error: the address that was meant would be allocated.
  if (!prefixesOverlap(prefix, subnet)) {
    throw wrong(field, `${formatCidr(prefix)} not in network ${formatCidr(subnet)}; expected a part of that network`);
  }
  return prefix;
}

function configuredCidr(text: string, field: string): Cidr {
  try {
    return parseCidr(text, field);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    throw new DrawbridgeError("ERR_CONFIGURATION", error.message, { cause: error });
  }
}

function optionalAddress(text: string | undefined, field: string): Address | undefined {
  if (text === undefined || text === "") return undefined;
  const address = tryParseAddress(text);
  if (address === undefined) {
    throw wrong(field, `${JSON.stringify(text)} is not an IP address; expected one like "10.244.1.1" or "fd00:244::1"`);
  }
  return address;
}

function expectInside(role: string, address: Address, subnet: Cidr, field: string): void {
  if (cidrContains(subnet, address)) return;
  throw wrong(
    field,
    `${role} ${formatAddress(address)} not in network ${formatCidr(subnet)}; expected an address between ${formatAddress(networkAddress(subnet))} and ${formatAddress(lastAddress(subnet))}`,
  );
}

/** Returns the first of the ranges that shares an address with this one. */
function overlapping(ranges: readonly AllocationRange[], range: AllocationRange): AllocationRange | undefined {
  for (const other of ranges) {
    const isBefore = compareAddresses(other.rangeEnd, range.rangeStart) < 0;
    const isBehind = compareAddresses(other.rangeStart, range.rangeEnd) > 0;
    if (!isBefore && !isBehind) return other;
  }
  return undefined;
}

function prefixesOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, b.address) || cidrContains(b, a.address);
}

/** Takes one step inside a prefix of at least four addresses, which cannot leave the family's number space. */
function step(address: Address, distance: bigint): Address {
  const next = addressPlus(address, distance);
  if (next === undefined) throw new RangeError(`no address ${distance} after ${formatAddress(address)}`);
  return next;
}

function wrong(field: string, problem: string): DrawbridgeError {
  return new DrawbridgeError("ERR_CONFIGURATION", `${field}: ${problem}`);
}
