import { type Address, formatAddress } from "../ip/address.ts";
import type { MacAddress } from "../ip/mac.ts";
import { address, mac } from "../netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  MessageFlag,
  type ReceivedMessage,
  type Request,
  request,
} from "../netlink/message.ts";
import { AF_BRIDGE } from "./notification.ts";

const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;

const NUD_PERMANENT = 0x80;
const NUD_NOARP = 0x40;
const NTF_SELF = 0x02;
const NTF_MASTER = 0x04;
const NTF_STICKY = 0x40;

/** struct ndmsg and NDA_* (include/uapi/linux/neighbour.h). */
const layout = {
  struct: { family: "u8", pad1: "u8", pad2: "u16", index: "i32", state: "u16", flags: "u8", type: "u8" },
  attributes: { destination: [1, address], mac: [2, mac] },
} as const satisfies BodyLayout;

/** An entry of a VXLAN device's forwarding database: frames for this MAC address are sent to that node. */
export interface ForwardingEntry {
  readonly mac: MacAddress;
  /** An address of the same family as the device's own. */
  readonly remote: Address;
}

/** Returns the request to set a permanent entry, which replaces the entry of that MAC address. */
export function setForwardingEntry(index: number, { mac: to, remote }: ForwardingEntry): Request {
  return request(
    `set forwarding of ${to} to ${formatAddress(remote)} on link ${index}`,
    { type: RTM_NEWNEIGH, flags: MessageFlag.CREATE | MessageFlag.REPLACE, layout },
    { family: AF_BRIDGE, index, state: NUD_PERMANENT, flags: NTF_SELF },
    { destination: remote, mac: to },
  );
}

/**
 * Returns the request to bind a MAC address to a port in its bridge as long as the port exists, even if another port
 * sends from that address (NTF_STICKY).
 *
 * @param whereTaken decides the case that the bridge has the address at another port or as its own: "move" moves it,
 *   with "refuse" the kernel answers EEXIST
 */
export function setPortEntry(port: number, to: MacAddress, whereTaken: "move" | "refuse" = "move"): Request {
  const flag = whereTaken === "move" ? MessageFlag.REPLACE : MessageFlag.EXCL;
  return request(
    `tell the bridge that ${to} is behind link ${port}`,
    { type: RTM_NEWNEIGH, flags: MessageFlag.CREATE | flag, layout },
    { family: AF_BRIDGE, index: port, state: NUD_NOARP, flags: NTF_MASTER | NTF_STICKY },
    { mac: to },
  );
}

/** Returns the request for a MAC address in a port's bridge; ENOENT if it is unknown. */
export function getPortEntry(port: number, to: MacAddress): Request {
  return request(
    `ask the bridge of link ${port} for ${to}`,
    { type: RTM_GETNEIGH, flags: 0, layout, isAnswered: true },
    { family: AF_BRIDGE, index: port, flags: NTF_MASTER },
    { mac: to },
  );
}

/** A MAC address and the port by which a bridge sends to it. */
export interface PortEntry {
  readonly port: number;
  readonly mac: MacAddress;
}

/**
 * Returns the entry in a bridge's RTM_NEWNEIGH message; undefined for a message without a MAC address.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parsePortEntry(message: ReceivedMessage): PortEntry | undefined {
  const { header, attributes } = decodeBody(layout, message.body);
  if (attributes.mac === undefined) return undefined;
  return { port: header.index, mac: attributes.mac };
}

/** Returns the request to delete an entry; ENOENT when there is none. */
export function deleteForwardingEntry(index: number, { mac: to, remote }: ForwardingEntry): Request {
  return request(
    `delete forwarding of ${to} to ${formatAddress(remote)} on link ${index}`,
    { type: RTM_DELNEIGH, flags: 0, layout },
    { family: AF_BRIDGE, index, flags: NTF_SELF },
    { destination: remote, mac: to },
  );
}

/** Returns the request for the entries of one device. */
export function dumpForwarding(index: number): Request {
  return request("list forwarding", { type: RTM_GETNEIGH, flags: 0, layout }, { family: AF_BRIDGE, index }, {});
}

/**
 * Returns the entry in a RTM_NEWNEIGH message; undefined unless it leads to another node.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for a malformed message
 */
export function parseForwardingEntry(message: ReceivedMessage): ForwardingEntry | undefined {
  const { mac: to, destination } = decodeBody(layout, message.body).attributes;
  return to === undefined || destination === undefined ? undefined : { mac: to, remote: destination };
}
