import type { MacAddress } from "../ip/mac.ts";
import type { AttributeTable, AttributeValues } from "../netlink/attribute.ts";
import {
  attributeBytes,
  bytes,
  decodeAttributes,
  encodeAttributes,
  i32,
  mac,
  nested,
  string,
  u16,
  u32,
  u8,
} from "../netlink/attribute.ts";
import type { BodyLayout, ReceivedMessage, Request } from "../netlink/message.ts";
import { decodeBody, MessageFlag, request } from "../netlink/message.ts";
import { encodeStruct } from "../netlink/struct.ts";
import { Writer } from "../netlink/writer.ts";

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;

const AF_UNSPEC = 0;
const AF_BRIDGE = 7;
const AF_INET6 = 10;

const IFF_UP = 0x1;
const IFF_NOARP = 0x80;
/** ARPHRD_ETHER (include/uapi/linux/if_arp.h). */
const ETHERNET = 1;
const IFF_LOWER_UP = 0x10000;

/** struct ifinfomsg (include/uapi/linux/rtnetlink.h). */
const linkHeader = { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" } as const;

/** IFLA_BRPORT_* (include/uapi/linux/if_link.h). */
const bridgePortAttributes = {
  hairpin: [4, u8],
  groupForwardMask: [31, u16],
  isolated: [33, u8],
} as const satisfies AttributeTable;

/** IFLA_BR_*. */
const bridgeAttributes = { stpState: [5, u32] } as const satisfies AttributeTable;

/** IFLA_INFO_*; the tables of `data` and `slaveData` depend on `kind` and `slaveKind`. */
const linkInfoAttributes = {
  kind: [1, string],
  data: [2, bytes],
  slaveKind: [4, string],
  slaveData: [5, bytes],
} as const satisfies AttributeTable;

/** BR_NO_STP (net/bridge/br_private.h). */
const STP_OFF = 0;

const ADDRESS_GENERATION_NONE = 1;

/** IFLA_INET6_*. */
const inet6Attributes = { addressGeneration: [8, u8] } as const satisfies AttributeTable;

/** IFLA_AF_SPEC: an attribute per address family, numbered like the family. */
const familyAttributes = { inet6: [AF_INET6, nested(inet6Attributes)] } as const satisfies AttributeTable;

/** IFLA_*. */
const linkAttributes = {
  mac: [1, mac],
  name: [3, string],
  mtu: [4, u32],
  link: [5, i32],
  master: [10, u32],
  operationalState: [16, u8],
  linkInfo: [18, nested(linkInfoAttributes)],
  alias: [20, string],
  families: [26, nested(familyAttributes)],
  group: [27, u32],
  extensionMask: [29, u32],
  netnsFd: [28, u32],
  transmitQueues: [31, u32],
  receiveQueues: [32, u32],
  linkNetnsId: [37, i32],
} as const satisfies AttributeTable;

/** What RTM_*LINK carries when read: only attributes whose payload is the same for all kinds of link. */
const linkLayout = { struct: linkHeader, attributes: linkAttributes } as const satisfies BodyLayout;

/** MAC addresses of tunnels and loopback are not six bytes, so reading takes the raw payload. */
const readLayout = {
  struct: linkHeader,
  attributes: { ...linkAttributes, mac: [1, bytes], portInformation: [12, bytes], families: [26, bytes] },
} as const satisfies BodyLayout;

const identityLayout = { struct: linkHeader, attributes: { name: linkAttributes.name } } as const satisfies BodyLayout;

const VETH_INFO_PEER = 1;
/**
 * Of a veth, as it has by default, and said in its creation: else it gets room for one on each processor and gives the
 * others up, which waits for a grace period of RCU at each end (veth_init_queues of drivers/net/veth.c).
 */
const ONE_QUEUE = { transmitQueues: 1, receiveQueues: 1 } as const;
/** RTEXT_FILTER_SKIP_STATS: counters are half of an answer, and nobody here reads them. */
const SKIP_STATISTICS = 8;

/** IF_OPER_UP: the link carries packets. */
export const OPERATIONAL_STATE_UP = 6;
/** IF_OPER_UNKNOWN: the kernel has had no reason yet to look (linkwatch); with a carrier the link carries packets. */
export const OPERATIONAL_STATE_UNKNOWN = 0;

/** A RTM_NEWLINK that makes a link; EEXIST when its name is taken. */
export const create = { type: RTM_NEWLINK, flags: MessageFlag.CREATE | MessageFlag.EXCL, layout: linkLayout } as const;
const change = { type: RTM_NEWLINK, flags: 0, layout: linkLayout } as const;

/** A network interface as the kernel describes it. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** The driver ("veth", "bridge"), or undefined for hardware and loopback. */
  readonly kind: string | undefined;
  readonly mac: MacAddress | undefined;
  readonly mtu: number;
  readonly up: boolean;
  readonly carrier: boolean;
  /** It is Ethernet and asks for MAC addresses; WireGuard, tun, ppp and GRE know only the addresses inside of packets. */
  readonly hasLinkLayer: boolean;
  /** IF_OPER_*: 6 is up, 2 is down. */
  readonly operationalState: number;
  /** The index of the bridge this is a port of. */
  readonly master: number | undefined;
  /** The index of the veth peer, in the namespace `linkNetnsId` names when that is set. */
  readonly peer: number | undefined;
  readonly linkNetnsId: number | undefined;
  readonly alias: string | undefined;
  readonly group: number;
  readonly bridge: { readonly stp: boolean } | undefined;
  readonly bridgePort:
    | { readonly hairpin: boolean; readonly isolated: boolean; readonly groupForwardMask: number }
    | undefined;
}

/** One end of a veth pair. */
export interface VethEnd {
  readonly name: string;
  readonly mac: MacAddress;
}

/** A pair of veths: this end in the namespace of the socket, the peer where `netnsFd` points. */
export interface VethPair {
  readonly host: VethEnd;
  readonly peer: VethEnd & { readonly netnsFd: number };
  /** Bytes; 0 leaves the kernel's default of 1500. */
  readonly mtu: number;
  /** The index of the bridge the host end joins. */
  readonly master: number;
}

/**
 * Creates a veth pair with both ends in their final namespaces, under their final names: nothing is moved or renamed.
 *
 * IFF_UP cannot be part of this message (the kernel answers ENOTCONN until the peer is linked).
 */
export function createVeth(pair: VethPair): Request {
  const mtu = pair.mtu === 0 ? undefined : pair.mtu;
  const peer = new Writer(128);
  encodeStruct(peer, linkHeader, {});
  encodeAttributes(peer, linkAttributes, {
    mac: pair.peer.mac,
    name: pair.peer.name,
    netnsFd: pair.peer.netnsFd,
    mtu,
    ...ONE_QUEUE,
  });
  const data = attributeBytes({ peer: [VETH_INFO_PEER, bytes] } as const, { peer: peer.view() });
  return request(
    `create veth ${pair.host.name} with peer ${pair.peer.name}`,
    create,
    {},
    {
      mac: pair.host.mac,
      name: pair.host.name,
      master: pair.master,
      linkInfo: { kind: "veth", data },
      mtu,
      ...ONE_QUEUE,
    },
  );
}

/**
 * Creates a bridge with an address of its own and STP off (POD-16), down.
 *
 * With an explicit MAC the kernel never adopts the lowest port's (br_stp_change_bridge_id). An MTU is not part of it:
 * only a change afterwards makes one that ports coming and going do not alter (BROPT_MTU_SET_BY_USER).
 */
export function createBridge(bridge: { readonly name: string; readonly mac: MacAddress }): Request {
  return request(
    `create bridge ${bridge.name}`,
    create,
    {},
    {
      mac: bridge.mac,
      name: bridge.name,
      linkInfo: { kind: "bridge", data: attributeBytes(bridgeAttributes, { stpState: 0 }) },
    },
  );
}

/** What can be changed on an existing link; what is left out stays. */
export interface LinkChange {
  readonly up?: boolean;
  readonly mtu?: number;
  readonly mac?: MacAddress;
  readonly alias?: string;
  readonly group?: number;
  /**
   * False: the kernel generates no IPv6 link-local address. It takes effect together with `up` only while the link has
   * no carrier, since the kernel sets flags before address generation (do_setlink).
   */
  readonly linkLocalAddress?: false;
  /** The index of the bridge that it becomes a port of. */
  readonly master?: number;
  /** Of a bridge: false switches the spanning tree protocol off. */
  readonly stp?: false;
  readonly bridgePort?: {
    readonly hairpin: boolean;
    /** Bit n: frames to 01:80:c2:00:00:0n that come in here are handled like all others (IEEE 802.1D, table 7-10). */
    readonly groupForwardMask?: number;
  };
}

/** Names a link: by index where it is known, else by name. */
export type LinkReference = { readonly index: number } | { readonly name: string };

/** Changes an existing link in one message. */
export function changeLink(link: LinkReference, to: LinkChange): Request {
  return request(
    `change link ${describe(link)}`,
    change,
    { index: indexOf(link), flags: to.up === true ? IFF_UP : 0, change: to.up === undefined ? 0 : IFF_UP },
    {
      name: nameOf(link),
      mac: to.mac,
      mtu: to.mtu,
      alias: to.alias,
      group: to.group,
      master: to.master,
      families:
        to.linkLocalAddress === undefined ? undefined : { inet6: { addressGeneration: ADDRESS_GENERATION_NONE } },
      linkInfo: infoOf(to),
    },
  );
}

/** The part of a change that is about a bridge or its port; a message has room for one of the two. */
function infoOf({ bridgePort, stp }: LinkChange): AttributeValues<typeof linkInfoAttributes> | undefined {
  if (stp === false) return { kind: "bridge", data: attributeBytes(bridgeAttributes, { stpState: STP_OFF }) };
  if (bridgePort === undefined) return undefined;
  const data = attributeBytes(bridgePortAttributes, { ...bridgePort, hairpin: bridgePort.hairpin ? 1 : 0 });
  return { slaveKind: "bridge", slaveData: data };
}

/** Deletes a link; a veth takes its peer with it. */
export function deleteLink(link: LinkReference): Request {
  return request(
    `delete link ${describe(link)}`,
    { type: RTM_DELLINK, flags: 0, layout: linkLayout },
    { index: indexOf(link) },
    { name: nameOf(link) },
  );
}

/**
 * Deletes all links of a group in one request (rtnl_group_dellink).
 *
 * The kernel refuses as a whole when one of them is of a kind that cannot be deleted.
 */
export function deleteLinkGroup(group: number): Request {
  return request(
    `delete the links of group ${group}`,
    { type: RTM_DELLINK, flags: 0, layout: linkLayout },
    {},
    { group },
  );
}

/** Asks for one link. */
export function getLink(link: LinkReference): Request {
  return request(
    `get link ${describe(link)}`,
    { type: RTM_GETLINK, flags: 0, layout: linkLayout, isAnswered: true },
    { index: indexOf(link) },
    { name: nameOf(link), extensionMask: SKIP_STATISTICS },
  );
}

/** Asks for all links of the namespace. */
export function dumpLinks(): Request {
  return request(
    "list links",
    { type: RTM_GETLINK, flags: 0, layout: linkLayout },
    { family: AF_UNSPEC },
    { extensionMask: SKIP_STATISTICS },
  );
}

/**
 * The link a RTM_NEWLINK message describes.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function parseLink(message: ReceivedMessage): Link {
  const { header, attributes } = decodeBody(readLayout, message.body);
  const { kind, data, slaveKind, slaveData } = attributes.linkInfo ?? {};
  // The bridge itself notifies of its ports in another form (br_fill_ifinfo).
  const portData = header.family === AF_BRIDGE ? attributes.portInformation : undefined;
  const ofPort = slaveKind === "bridge" ? slaveData : portData;
  const bridge = kind === "bridge" && data !== undefined ? decodeAttributes(bridgeAttributes, data) : undefined;
  return {
    index: header.index,
    name: attributes.name ?? "",
    kind,
    mac: attributes.mac?.length === 6 ? mac.decode(attributes.mac) : undefined,
    mtu: attributes.mtu ?? 0,
    up: (header.flags & IFF_UP) !== 0,
    carrier: (header.flags & IFF_LOWER_UP) !== 0,
    hasLinkLayer: header.type === ETHERNET && (header.flags & IFF_NOARP) === 0,
    operationalState: attributes.operationalState ?? 0,
    master: attributes.master,
    peer: attributes.link,
    linkNetnsId: attributes.linkNetnsId,
    alias: attributes.alias,
    group: attributes.group ?? 0,
    bridge: bridge === undefined ? undefined : { stp: bridge.stpState !== 0 },
    bridgePort: ofPort === undefined ? undefined : bridgePortOf(ofPort),
  };
}

function bridgePortOf(data: Uint8Array): Link["bridgePort"] {
  const { hairpin, isolated, groupForwardMask = 0 } = decodeAttributes(bridgePortAttributes, data);
  return { hairpin: hairpin === 1, isolated: isolated === 1, groupForwardMask };
}

/**
 * Which link a RTM_*LINK message is about, for those to whom most are of no interest: a third of {@link parseLink}'s work.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED when it is not one
 */
export function linkIdentity({ body }: ReceivedMessage): Pick<Link, "index" | "name"> {
  const { header, attributes } = decodeBody(identityLayout, body);
  return { index: header.index, name: attributes.name ?? "" };
}

/** 0 where the name says which link it is. */
function indexOf(link: LinkReference): number {
  return "index" in link ? link.index : 0;
}

function nameOf(link: LinkReference): string | undefined {
  return "name" in link ? link.name : undefined;
}

function describe(link: LinkReference): string {
  return "index" in link ? String(link.index) : link.name;
}
