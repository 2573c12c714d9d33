import type { Family } from "../../../kernel/ip/address.ts";

/**
 * Returns the payload of a packet from a raw socket: IPv4 packets have their IP header (raw(7)), IPv6 packets do not.
 *
 * @returns undefined when the packet is too short for the header it announces
 */
export function payloadOf(family: Family, received: Uint8Array): Uint8Array | undefined {
  if (family === 6) return received;
  const headerLength = ((received[0] ?? 0) & 0x0f) * 4;
  return headerLength >= 20 && received.length >= headerLength ? received.subarray(headerLength) : undefined;
}

/** Returns the Internet checksum (RFC 1071) of bytes whose checksum field is zero. */
export function internetChecksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let i = 0; i < bytes.length; i += 2) sum += ((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
