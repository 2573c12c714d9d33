import { type Address, addressFromBytes, addressToBytes, type Family, familyOf } from "../../../kernel/ip/address.ts";

export const AF_INET = 2;
export const AF_INET6 = 10;

/** An address and a port of the transport protocol; 0 if the protocol has none. */
export interface Endpoint {
  readonly address: Address;
  readonly port: number;
}

const SOCKADDR_IN_SIZE = 16;
const SOCKADDR_IN6_SIZE = 28;

/** The size of the larger form. */
export const SOCKADDR_SIZE = SOCKADDR_IN6_SIZE;

export function domainOf(family: Family): number {
  return family === 4 ? AF_INET : AF_INET6;
}

/**
 * Encodes an endpoint as `struct sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)).
 *
 * @param port 0 for raw sockets, where the kernel reads it as a protocol number
 */
export function encodeEndpoint({ address, port }: Endpoint): Uint8Array {
  const isV4 = familyOf(address) === 4;
  const bytes = new Uint8Array(isV4 ? SOCKADDR_IN_SIZE : SOCKADDR_IN6_SIZE);
  const view = new DataView(bytes.buffer);
  // sa_family is in host byte order.
  new Uint16Array(bytes.buffer, 0, 1)[0] = domainOf(familyOf(address));
  view.setUint16(2, port);
  bytes.set(addressToBytes(address), isV4 ? 4 : 8);
  return bytes;
}

/** @throws Error when the family is neither IPv4 nor IPv6 */
export function decodeEndpoint(bytes: Uint8Array): Endpoint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const family = new Uint16Array(bytes.slice(0, 2).buffer)[0];
  if (family !== AF_INET && family !== AF_INET6) throw new Error(`socket address of family ${family}`);
  const address = family === AF_INET ? bytes.slice(4, 8) : bytes.slice(8, 24);
  return { address: addressFromBytes(address), port: view.getUint16(2) };
}
