import { DrawbridgeError } from "../error.ts";

declare const ipv4Brand: unique symbol;
declare const ipv6Brand: unique symbol;

/** An IPv4 address as an unsigned 32-bit integer in host order. */
export type Ipv4Address = number & { readonly [ipv4Brand]: true };

/** An IPv6 address as an unsigned 128-bit integer. */
export type Ipv6Address = bigint & { readonly [ipv6Brand]: true };

/**
 * An IP address, parsed once and stored as a number.
 *
 * It is a primitive on purpose: `===` compares addresses, and an address works as a `Map` key. `typeof` tells the
 * family.
 */
export type Address = Ipv4Address | Ipv6Address;

export type Family = 4 | 6;

/** Both families, IPv4 first. */
export const FAMILIES = [4, 6] as const;

/** Returns the families of addresses, each once. */
export function familiesIn(addresses: readonly Address[]): readonly Family[] {
  return FAMILIES.filter((family) => addresses.some((address) => familyOf(address) === family));
}

/** The kernel turns IPv6 off on a device with a smaller MTU (RFC 8200, section 5). */
export const SMALLEST_IPV6_MTU = 1280;

const MAX_IPV6 = (1n << 128n) - 1n;
/** The longest text: eight groups, the last two as IPv4: "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255". */
const LONGEST_IPV6 = 45;

export function familyOf(address: Address): Family {
  return typeof address === "number" ? 4 : 6;
}

/** Returns the number of bits of an address of this family. */
export function bitsOf(family: Family): 32 | 128 {
  return family === 4 ? 32 : 128;
}

/**
 * Parses an IPv4 address in its only strict form: four decimal parts, 0-255, no leading zeros.
 *
 * Libraries are laxer: `ipaddr.js` reads `010.0.0.1` as 8.0.0.1 and `127.1` as 127.0.0.1. Loading one would also cost
 * every ADD a millisecond (docs/performance.md). The tests use `ipaddr.js` as the oracle for what both accept.
 *
 * @returns the address, or undefined when the text is not one
 */
export function tryParseIpv4(text: string): Ipv4Address | undefined {
  let value = 0;
  let part = -1;
  let parts = 0;
  for (let i = 0; i <= text.length; i++) {
    const c = i === text.length ? 46 : text.charCodeAt(i);
    if (c >= 48 && c <= 57) {
      if (part === 0) return undefined;
      part = (part < 0 ? 0 : part * 10) + (c - 48);
      if (part > 255) return undefined;
    } else if (c === 46) {
      if (part < 0 || parts === 4) return undefined;
      value = value * 256 + part;
      parts++;
      part = -1;
    } else return undefined;
  }
  return parts === 4 ? (value as Ipv4Address) : undefined;
}

/**
 * Parses an IPv6 address (RFC 4291 section 2.2) without a zone. An embedded IPv4 tail must itself be strict.
 *
 * @returns the address, or undefined when the text is not one
 */
export function tryParseIpv6(text: string): Ipv6Address | undefined {
  const [head = "", tail, ...more] = text.split("::");
  if (more.length > 0 || text.length > LONGEST_IPV6) return undefined;
  const before = parseGroups(head, tail === undefined);
  const after = parseGroups(tail ?? "", true);
  if (before === undefined || after === undefined) return undefined;
  const zeros = 8 - before.length - after.length;
  // "::" stands for at least one group of zeros (RFC 4291); without it all eight groups are written.
  if (tail === undefined ? zeros !== 0 : zeros < 1) return undefined;
  let value = 0n;
  for (const group of before) value = (value << 16n) | BigInt(group);
  value <<= BigInt(16 * zeros);
  for (const group of after) value = (value << 16n) | BigInt(group);
  return value as Ipv6Address;
}

/** Returns the 16-bit groups between colons. The last two may be written as an IPv4 address where `mayEndInIpv4`. */
function parseGroups(text: string, mayEndInIpv4: boolean): readonly number[] | undefined {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  let left = parts.length;
  for (const part of parts) {
    left--;
    if (/^[0-9a-fA-F]{1,4}$/.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const ipv4 = mayEndInIpv4 && left === 0 ? tryParseIpv4(part) : undefined;
    if (ipv4 === undefined) return undefined;
    groups.push(ipv4 >>> 16, ipv4 & 0xffff);
  }
  return groups;
}

/** Parses an IPv4 or IPv6 address strictly, or returns undefined. */
export function tryParseAddress(text: string): Address | undefined {
  return text.includes(":") ? tryParseIpv6(text) : tryParseIpv4(text);
}

/**
 * Parses an IPv4 or IPv6 address. Every text becomes an address only through this function.
 *
 * @param field the name of the text, for the error message ("ipam.ranges[0][0].gateway")
 * @throws DrawbridgeError ERR_ADDRESS naming the field and the value
 */
export function parseAddress(text: string, field = "address"): Address {
  const address = tryParseAddress(text);
  if (address === undefined) {
    throw new DrawbridgeError(
      "ERR_ADDRESS",
      `${field}: ${JSON.stringify(text)} is not an IP address; expected four decimal numbers without leading zeros ("10.244.1.7") or an IPv6 address without a zone ("fd00:244::7")`,
    );
  }
  return address;
}

/**
 * Returns the address in its canonical text: dotted decimal, or RFC 5952 for IPv6.
 *
 * It is what Go's `net.IP.String` prints, except for IPv4-mapped addresses (`::ffff:a00:1`), which Go takes for IPv4.
 */
export function formatAddress(address: Address): string {
  if (typeof address === "number") {
    return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
  }
  const digits = address.toString(16).padStart(32, "0");
  return shortened((digits.match(/.{4}/g) ?? []).join(":").replace(/\b0{1,3}/g, ""));
}

/** Replaces the first of the longest runs of zero groups by "::" (RFC 5952 section 4.2). */
function shortened(text: string): string {
  let longest = "";
  for (const run of text.match(/\b0(?::0)+\b/g) ?? []) if (run.length > longest.length) longest = run;
  if (longest === "") return text;
  const framed = `:${text}:`;
  const start = framed.indexOf(`:${longest}:`);
  return `${framed.slice(1, start)}::${framed.slice(start + longest.length + 2, -1)}`;
}

/** Returns the address in network byte order: 4 or 16 bytes. */
export function addressToBytes(address: Address): Uint8Array {
  if (typeof address === "number") {
    return Uint8Array.of(address >>> 24, (address >>> 16) & 255, (address >>> 8) & 255, address & 255);
  }
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, address >> 64n);
  view.setBigUint64(8, address & 0xffff_ffff_ffff_ffffn);
  return bytes;
}

/**
 * Reads an address of 4 or 16 bytes in network order.
 *
 * @throws DrawbridgeError ERR_ADDRESS for any other length
 */
export function addressFromBytes(bytes: Uint8Array): Address {
  if (bytes.length === 4) {
    // No view here, for speed: these addresses come by the ten thousand.
    const high = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
    return (high * 0x1_0000 + ((bytes[2] ?? 0) << 8) + (bytes[3] ?? 0)) as Ipv4Address;
  }
  if (bytes.length === 16) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return ((view.getBigUint64(0) << 64n) | view.getBigUint64(8)) as Ipv6Address;
  }
  throw new DrawbridgeError("ERR_ADDRESS", `address: ${bytes.length} bytes; expected 4 (IPv4) or 16 (IPv6)`);
}

/** Returns the address `distance` steps away, of the same family, or undefined outside the family's number space. */
export function addressPlus(address: Address, distance: bigint): Address | undefined {
  const value = BigInt(address) + distance;
  return addressFromValue(familyOf(address), value);
}

/** Returns the address of a family with this numeric value, or undefined when it does not fit. */
export function addressFromValue(family: Family, value: bigint): Address | undefined {
  if (value < 0n) return undefined;
  if (family === 4) return value <= 0xffff_ffffn ? (Number(value) as Ipv4Address) : undefined;
  return value <= MAX_IPV6 ? (value as Ipv6Address) : undefined;
}

/** Compares addresses for `Array.sort`: IPv4 comes before IPv6, then the numbers decide. */
export function compareAddresses(a: Address, b: Address): number {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}
