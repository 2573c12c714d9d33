import type { Address } from "../../../kernel/ip/address.ts";
import { addressToBytes, compareAddresses, formatAddress } from "../../../kernel/ip/address.ts";

/** Where an endpoint listens. */
export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
}

/** The same text for the same address and port, to be a key of maps; in one piece, as tens of thousands are kept. */
export function socketText({ address, port }: SocketAddress): string {
  return [formatAddress(address), port].join(" ");
}

export function compareSockets(a: SocketAddress, b: SocketAddress): number {
  return compareAddresses(a.address, b.address) || a.port - b.port;
}

/** Address and port as registers hold them side by side, which is what nft hashes: 8 or 20 bytes. */
export function socketBytes({ address, port }: SocketAddress): Uint8Array {
  const own = addressToBytes(address);
  const bytes = new Uint8Array(own.length + 4);
  bytes.set(own);
  bytes[own.length] = port >>> 8;
  bytes[own.length + 1] = port & 255;
  return bytes;
}
