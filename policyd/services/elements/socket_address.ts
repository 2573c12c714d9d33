import {
  type Address,
  addressFromValue,
  addressToBytes,
  compareAddresses,
  formatAddress,
} from "../../../kernel/ip/address.ts";
import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";

/** The address and port where an endpoint listens. */
export interface SocketAddress {
  readonly address: Address;
  readonly port: number;
}

/** Returns the socket in two fields of an element, an address and a port; undefined if they contain anything else. */
export function socketOf(address: Scalar | undefined, port: Scalar | undefined): SocketAddress | undefined {
  if ((typeof address !== "number" && typeof address !== "bigint") || typeof port !== "number") return undefined;
  const parsed = addressFromValue(typeof address === "bigint" ? 6 : 4, BigInt(address));
  return parsed === undefined ? undefined : { address: parsed, port };
}

/** Returns a socket as a key of maps; `join` makes a flat string, and tens of thousands are retained. */
export function socketText({ address, port }: SocketAddress): string {
  return [formatAddress(address), port].join(" ");
}

/** A key of maps that is the same for the same address and port. */
export type SocketKey = number | string;

/** As {@link socketText}, but a number if it has room for both: a node makes tens of thousands. */
export function socketKey(socket: SocketAddress): SocketKey {
  return typeof socket.address === "number" ? socket.address * 65_536 + socket.port : socketText(socket);
}

export function compareSockets(a: SocketAddress, b: SocketAddress): number {
  return compareAddresses(a.address, b.address) || a.port - b.port;
}

/** Returns address and port as nft's registers hold them side by side, the form that nft hashes: 8 or 20 bytes. */
export function socketBytes({ address, port }: SocketAddress): Uint8Array {
  if (typeof address === "number") {
    // A separate array for the address is avoided: a start hashes tens of thousands.
    return Uint8Array.of(address >>> 24, address >>> 16, address >>> 8, address, port >>> 8, port, 0, 0);
  }
  const own = addressToBytes(address);
  const bytes = new Uint8Array(own.length + 4);
  bytes.set(own);
  bytes[own.length] = port >>> 8;
  bytes[own.length + 1] = port & 255;
  return bytes;
}
