import type { Address } from "../ip/address.ts";
import { formatAddress } from "../ip/address.ts";
import type { MacAddress } from "../ip/mac.ts";
import { address, mac, u32 } from "../netlink/attribute.ts";
import type { BodyLayout, ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody, MessageFlag, request } from "../netlink/message.ts";
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
  attributes: { destination: [1, address], mac: [2, mac], master: [9, u32] },
} as const satisfies BodyLayout;

/** An entry of a VXLAN device's forwarding database: frames to this MAC address are sent to that node. */
export interface ForwardingEntry {
  readonly mac: MacAddress;
  /** Of the family of the device's own address. */
  readonly remote: Address;
}

/** Sets a permanent entry, replacing the one of that MAC address. */
export function setForwardingEntry(index: number, { mac: to, remote }: ForwardingEntry): Request {
  return request(
    `set forwarding of ${to} to ${formatAddress(remote)} on link ${index}`,
    { type: RTM_NEWNEIGH, flags: MessageFlag.CREATE | MessageFlag.REPLACE, layout },
    { family: AF_BRIDGE, index, state: NUD_PERMANENT, flags: NTF_SELF },
    { destination: remote, mac: to },
  );
}

/**
 * Tells the bridge of a port that a MAC address is behind it, for as long as the port is there, whatever sends from that
 * address elsewhere (NTF_STICKY).
 *
 * @param whereTaken what happens where the bridge has it behind another port, or is its own: it moves, or the kernel
 *   answers EEXIST
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

/** Asks a port's bridge where it has a MAC address; ENOENT when it has it nowhere. Linux answers since 5.0. */
export function getPortEntry(port: number, to: MacAddress): Request {
  return request(
    `ask the bridge of link ${port} for ${to}`,
    { type: RTM_GETNEIGH, flags: 0, layout, isAnswered: true },
    { family: AF_BRIDGE, index: port, flags: NTF_MASTER },
    { mac: to },
  );
}

/** Asks for all that a bridge knows of MAC addresses. */
export function dumpPortEntries(bridge: number): Request {
  return request(
    `list forwarding of bridge ${bridge}`,
    { type: RTM_GETNEIGH, flags: 0, layout },
    { family: AF_BRIDGE },
    { master: bridge },
  );
}

/** A MAC address, the port by which a bridge sends to it, and whether it stays there. */
export interface PortEntry {
  readonly port: number;
  readonly mac: MacAddress;
  readonly isSticky: boolean;
}

/**
 * The place that a RTM_NEWNEIGH message of a bridge tells; undefined for a message without a MAC address.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function parsePortEntry(message: ReceivedMessage): PortEntry | undefined {
  const { header, attributes } = decodeBody(layout, message.body);
  if (attributes.mac === undefined) return undefined;
  return { port: header.index, mac: attributes.mac, isSticky: (header.flags & NTF_STICKY) !== 0 };
}

/** Deletes an entry; ENOENT when there is none. */
export function deleteForwardingEntry(index: number, { mac: to, remote }: ForwardingEntry): Request {
  return request(
    `delete forwarding of ${to} to ${formatAddress(remote)} on link ${index}`,
    { type: RTM_DELNEIGH, flags: 0, layout },
    { family: AF_BRIDGE, index, flags: NTF_SELF },
    { destination: remote, mac: to },
  );
}

/** Asks for the entries of one device. */
export function dumpForwarding(index: number): Request {
  return request("list forwarding", { type: RTM_GETNEIGH, flags: 0, layout }, { family: AF_BRIDGE, index }, {});
}

/**
 * The entry a RTM_NEWNEIGH message describes; undefined unless it leads to another node.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function parseForwardingEntry(message: ReceivedMessage): ForwardingEntry | undefined {
  const { mac: to, destination } = decodeBody(layout, message.body).attributes;
  return to === undefined || destination === undefined ? undefined : { mac: to, remote: destination };
}
