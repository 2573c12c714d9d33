import { DrawbridgeError } from "../error.ts";
import {
  type Address,
  addressFromValue,
  bitsOf,
  compareAddresses,
  type Family,
  familyOf,
  formatAddress,
  type Ipv6Address,
  tryParseAddress,
} from "./address.ts";

/** A prefix. `address` may have host bits set (an interface address) or not (a network). */
export interface Cidr {
  readonly address: Address;
  readonly prefixLength: number;
}

/** The IPv6 addresses that stand for IPv4 addresses: ::ffff:0:0/96 (RFC 4291 section 2.5.5.2). */
export const IPV4_MAPPED: Cidr = Object.freeze({ address: 0xffff_0000_0000n as Ipv6Address, prefixLength: 96 });

/**
 * Parses `address/length` strictly: a canonical decimal length without leading zeros, within the family's bits.
 *
 * Host bits are retained: use {@link hasHostBits} where a network is expected.
 *
 * @param field the name of the text, for the error message
 * @throws DrawbridgeError ERR_ADDRESS naming the field and the value
 */
export function parseCidr(text: string, field = "cidr"): Cidr {
  const slash = text.indexOf("/");
  const address = slash < 0 ? undefined : tryParseAddress(text.slice(0, slash));
  const length = text.slice(slash + 1);
  const prefixLength = Number(length);
  // Printing the number again shows whether the text was plain: no sign, no leading zero, no exponent.
  if (address !== undefined && String(prefixLength) === length && prefixLength >= 0) {
    if (prefixLength <= bitsOf(familyOf(address)) && Number.isInteger(prefixLength)) {
      return Object.freeze({ address, prefixLength });
    }
  }
  throw new DrawbridgeError(
    "ERR_ADDRESS",
    `${field}: ${JSON.stringify(text)} is not a prefix; expected an address, a slash and a length ("10.244.1.0/24", "fd00:244::/64")`,
  );
}

/** Returns `address/length` in canonical text. */
export function formatCidr(cidr: Cidr): string {
  return `${formatAddress(cidr.address)}/${cidr.prefixLength}`;
}

/** Returns the prefix that holds exactly this address: /32 or /128. */
export function hostCidr(address: Address): Cidr {
  return Object.freeze({ address, prefixLength: bitsOf(familyOf(address)) });
}

/** Tells whether a prefix holds exactly one address. */
export function isHostCidr({ address, prefixLength }: Cidr): boolean {
  return prefixLength === bitsOf(familyOf(address));
}

export function cidrFamily(cidr: Cidr): Family {
  return familyOf(cidr.address);
}

/** Returns the first address of the prefix (its network address). */
export function networkAddress(cidr: Cidr): Address {
  return edge(cidr, (value, hostMask) => value & ~hostMask);
}

/** Returns the last address of the prefix (for IPv4, the broadcast address). */
export function lastAddress(cidr: Cidr): Address {
  return edge(cidr, (value, hostMask) => value | hostMask);
}

/** Tells whether bits beyond the prefix length are set, as in 10.0.0.1/24. */
export function hasHostBits(cidr: Cidr): boolean {
  return networkAddress(cidr) !== cidr.address;
}

/** Tells whether the prefix contains the address; never true across families. */
export function cidrContains(cidr: Cidr, address: Address): boolean {
  if (typeof address === "number") {
    // JavaScript ignores a shift by 32, so length 0 is handled here.
    if (typeof cidr.address !== "number" || cidr.prefixLength === 0) return typeof cidr.address === "number";
    return (cidr.address ^ address) >>> (32 - cidr.prefixLength) === 0;
  }
  if (typeof cidr.address === "number") return false;
  const hostBits = BigInt(128 - cidr.prefixLength);
  return cidr.address >> hostBits === address >> hostBits;
}

function edge(cidr: Cidr, combine: (value: bigint, hostMask: bigint) => bigint): Address {
  const family = cidrFamily(cidr);
  const hostMask = (1n << BigInt(bitsOf(family) - cidr.prefixLength)) - 1n;
  const address = addressFromValue(family, combine(BigInt(cidr.address), hostMask));
  if (address === undefined) throw new RangeError(`prefix length ${cidr.prefixLength} out of range`);
  return address;
}

/**
 * Returns the networks that no other one contains, each once and in order: the kernel refuses overlapping ranges.
 *
 * @param cidrs without host bits
 */
export function outermost(cidrs: readonly Cidr[]): readonly Cidr[] {
  const kept: Cidr[] = [];
  for (const cidr of cidrs.toSorted(
    (a, b) => compareAddresses(a.address, b.address) || a.prefixLength - b.prefixLength,
  )) {
    const before = kept.at(-1);
    if (before === undefined || !cidrContains(before, cidr.address)) kept.push(cidr);
  }
  return kept;
}

/** Whether two networks have an address in common. */
export function doOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, networkAddress(b)) || cidrContains(b, networkAddress(a));
}

/** Whether two networks are written the same, host bits included. */
export function isSameCidr(a: Cidr, b: Cidr): boolean {
  return a.address === b.address && a.prefixLength === b.prefixLength;
}
