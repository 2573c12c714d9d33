import { type Address, type Family, familyOf, formatAddress } from "../ip/address.ts";
import type { MacAddress } from "../ip/mac.ts";
import { address, bytes, mac, u32, u8 } from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  decodeStruct,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { addressFamilyNumber } from "../netlink/address_family.ts";
import { ROUTE_PROTOCOL } from "./route.ts";

const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;

const NUD_PERMANENT = 0x80;
const NTF_PROXY = 0x08;

/** struct ndmsg and NDA_* (include/uapi/linux/neighbour.h). */
const struct = { family: "u8", pad1: "u8", pad2: "u16", index: "i32", state: "u16", flags: "u8", type: "u8" } as const;
const layout = {
  struct,
  attributes: { destination: [1, address], mac: [2, mac], filterIndex: [8, u32], protocol: [12, u8] },
} as const satisfies BodyLayout;
/** Entries of tunnels have other link addresses, so reading takes the raw payload. */
const readLayout = {
  struct,
  attributes: { destination: [1, address], mac: [2, bytes], protocol: [12, u8] },
} as const satisfies BodyLayout;

/** An entry of the ARP or neighbour discovery table. */
export interface Neighbour {
  readonly index: number;
  readonly address: Address;
  readonly mac: MacAddress | undefined;
  readonly permanent: boolean;
}

/** Returns the request to set a permanent neighbour entry, which replaces any learned entry for that address. */
export function setNeighbour(index: number, destination: Address, linkAddress: MacAddress): Request {
  return request(
    () => `set neighbour ${formatAddress(destination)} on link ${index}`,
    { type: RTM_NEWNEIGH, flags: MessageFlag.CREATE | MessageFlag.REPLACE, layout },
    { family: addressFamilyNumber(familyOf(destination)), index, state: NUD_PERMANENT },
    { destination, mac: linkAddress },
  );
}

/** Returns the request to delete a neighbour entry; ENOENT when there is none. */
export function deleteNeighbour(index: number, destination: Address): Request {
  return request(
    () => `delete neighbour ${formatAddress(destination)} on link ${index}`,
    { type: RTM_DELNEIGH, flags: 0, layout },
    { family: addressFamilyNumber(familyOf(destination)), index },
    { destination },
  );
}

/** Returns the request for the neighbour entry of an address; ENOENT when there is none. */
export function getNeighbour(index: number, destination: Address): Request {
  return request(
    () => `get neighbour ${formatAddress(destination)} on link ${index}`,
    { type: RTM_GETNEIGH, flags: 0, layout, isAnswered: true },
    { family: addressFamilyNumber(familyOf(destination)), index },
    { destination },
  );
}

/** Returns the request for the neighbour entries of a family, optionally of only one link. */
export function dumpNeighbours(family: Family, index?: number): Request {
  return request(
    "list neighbours",
    { type: RTM_GETNEIGH, flags: 0, layout },
    { family: addressFamilyNumber(family) },
    { filterIndex: index },
  );
}

/**
 * Returns the entry in a RTM_NEWNEIGH message; undefined for a message without an address.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseNeighbour(message: ReceivedMessage): Neighbour | undefined {
  const { header, attributes } = decodeBody(readLayout, message.body);
  if (attributes.destination === undefined) return undefined;
  return {
    index: header.index,
    address: attributes.destination,
    mac: attributes.mac?.length === 6 ? mac.decode(attributes.mac) : undefined,
    permanent: (header.state & NUD_PERMANENT) !== 0,
  };
}

/** Returns the link index of a RTM_*NEIGH message, including those about forwarding databases. */
export function neighbourLink(message: ReceivedMessage): number {
  return decodeStruct(struct, message.body).index;
}

/** A proxy: the namespace answers on a link for an address that it routes elsewhere (`ip neighbour add proxy`). */
export interface ProxyNeighbour {
  readonly index: number;
  readonly address: Address;
}

/** Returns the request to add a proxy marked as ours. An existing one is set again, never EEXIST. */
export function setProxyNeighbour(index: number, destination: Address): Request {
  return request(
    () => `set proxy for ${formatAddress(destination)} on link ${index}`,
    { type: RTM_NEWNEIGH, flags: MessageFlag.CREATE, layout },
    { family: addressFamilyNumber(familyOf(destination)), index, flags: NTF_PROXY },
    { destination, protocol: ROUTE_PROTOCOL },
  );
}

/** Returns the request to delete a proxy; ENOENT when there is none. */
export function deleteProxyNeighbour(index: number, destination: Address): Request {
  return request(
    () => `delete proxy for ${formatAddress(destination)} on link ${index}`,
    { type: RTM_DELNEIGH, flags: 0, layout },
    { family: addressFamilyNumber(familyOf(destination)), index, flags: NTF_PROXY },
    { destination },
  );
}

/** Returns the request for all proxies of a family; {@link parseOwnProxy} filters the answers. */
export function dumpProxyNeighbours(family: Family): Request {
  return request(
    "list proxies",
    { type: RTM_GETNEIGH, flags: 0, layout },
    { family: addressFamilyNumber(family), flags: NTF_PROXY },
    {},
  );
}

/**
 * Returns the proxy in a RTM_NEWNEIGH message; undefined for any other entry, and for a proxy that others made.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when the message is not about a neighbour
 */
export function parseOwnProxy(message: ReceivedMessage): ProxyNeighbour | undefined {
  const { header, attributes } = decodeBody(readLayout, message.body);
  const isOurs = (header.flags & NTF_PROXY) !== 0 && attributes.protocol === ROUTE_PROTOCOL;
  if (attributes.destination === undefined || !isOurs) return undefined;
  return { index: header.index, address: attributes.destination };
}
